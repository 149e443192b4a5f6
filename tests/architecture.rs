//! The direction in which modules depend on each other, read off their `use` lines and paths.

use std::fs;
use std::path::{Path, PathBuf};

/// From the top down. A module may name those in later rows, and itself.
const ROWS: [&[&str]; 9] = [
    &["main", "lib"],
    &["library"],
    &["cli"],
    &["door", "demo", "helpers"],
    &["record", "replay"],
    &["stdio", "http"],
    &["cassette"],
    &["redact", "mcp"],
    &["jsonrpc"],
];
/// Anyone may name these.
const BASE: [&str; 2] = ["error", "exit"];

fn row(module: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&module))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Every file with its module and the modules it names.
fn uses() -> Vec<(String, String, Vec<String>)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    found
        .iter()
        .map(|path| {
            let name = path.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
            let module = name.split(['/', '.']).next().unwrap().to_owned();
            let text = fs::read_to_string(path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            let named = code.split("crate::").skip(1).map(|rest| {
                rest.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap().to_owned()
            });
            (name.clone(), module, named.filter(|name| !name.is_empty()).collect())
        })
        .collect()
}

#[test]
fn modules_depend_downwards_only() {
    for (file, module, named) in uses() {
        for other in named.iter().filter(|other| **other != module && !BASE.contains(&other.as_str())) {
            let (Some(from), Some(to)) = (row(&module), row(other)) else {
                assert!(
                    BASE.contains(&module.as_str()),
                    "{file} names crate::{other}, which has no row in this test"
                );
                continue;
            };
            assert!(from < to, "{file} names crate::{other}, which is not below {module}");
        }
    }
}

#[test]
fn pure_modules_do_no_input_or_output() {
    let pure = ["jsonrpc/", "mcp/", "redact/", "replay/"];
    let impure = [
        "std::fs",
        "TcpStream",
        "TcpListener",
        "std::thread",
        "std::process",
        "std::env",
        "SystemTime",
        "Instant",
    ];
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&source, &mut found);
    for path in found {
        let name = path.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
        if name == "replay/stdio.rs"
            || name.starts_with("replay/http")
            || name.contains("tests")
            || !pure.iter().any(|pure| name.starts_with(pure))
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for word in impure {
            assert!(!code.contains(word), "{name} names {word}");
        }
    }
}

/// A file that no module list names would be tests that never run.
#[test]
fn every_file_of_tests_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let list = fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|name| !["main", "agent"].contains(name)) else {
            continue;
        };
        assert!(list.contains(&format!("\nmod {module};\n")), "tests/main.rs does not list {module}");
    }
}
