//! Every command line in the documentation is run, and the command reference is what `--help` says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{MCPREEL, Sandbox};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What every command in the documentation finds on its standard input: a short session of a client.
const SESSION: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}"#,
    "\n"
);

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from(ROOT).join("README.md")];
    let mut folders = vec![PathBuf::from(ROOT).join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The lines of the `sh` blocks of a page.
fn commands(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside && !line.trim().is_empty() => found.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

#[test]
fn every_command_line_in_the_documentation_works() {
    let mut run = 0;
    for page in pages() {
        let sandbox = Sandbox::new();
        for name in ["npx", "your-server"] {
            sandbox.script(&format!("bin/{name}"), &format!("exec {MCPREEL} demo server"));
        }
        let server = r#"{"command":"npx","args":["-y","server-files"]}"#;
        sandbox.file(".mcp.json", format!(r#"{{"mcpServers":{{"files":{server},"notes":{server}}}}}"#));
        let bin = sandbox.path.join("bin");
        let agent = Path::new(MCPREEL).with_file_name("examples").join("agent");
        std::os::unix::fs::symlink(agent, bin.join("your-agent")).unwrap();
        std::os::unix::fs::symlink(MCPREEL, bin.join("mcpreel")).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        for (index, line) in commands(&page).iter().enumerate() {
            if let Some(target) = line.strip_prefix("make ") {
                let target = target.split(['#', ' ']).next().unwrap();
                let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
                assert!(makefile.contains(&format!("\n{target}:")), "{}: {line}", page.display());
                continue;
            }
            let code = line.split_once("# exit ").map_or(0, |(_, code)| code.trim().parse().unwrap());
            let output = Command::new("sh")
                .args(["-c", line])
                .current_dir(&sandbox.path)
                .env("PATH", &path)
                .env("MCPREEL_SESSION", format!("docs-{}-{index}", std::process::id()))
                .env_remove("MCPREEL_MODE")
                .stdin(fs::File::open(sandbox.file("session", SESSION)).unwrap())
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{}: {line}\n{stderr}", page.display());
            run += 1;
        }
    }
    assert!(run > 15, "only {run} command lines were found");
}

#[test]
fn golden_command_reference() {
    let sandbox = Sandbox::new();
    let mut text = String::from(
        "# Commands\n\nWhat `mcpreel help` and `mcpreel COMMAND --help` say. Options take `--option value` and `--option=value`;\n\
         everything after `--` is the server's command line. Results go to standard output, everything else to standard\n\
         error. `-` stands for standard input or output where a file is expected.\n",
    );
    let overview = sandbox.mcpreel(["--help"]).run().expect(0).stdout();
    text += &format!("\n```text\n{}\n```\n", overview.trim());
    let (_, listed) = overview.split_once("\nCommands:\n").unwrap();
    let listed = listed.lines().take_while(|line| !line.trim().is_empty());
    let commands: Vec<&str> = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for command in commands {
        let help = sandbox.mcpreel([command, "--help"]).run().expect(0).stdout();
        text += &format!("\n## {command}\n\n```text\n{}\n```\n", help.trim());
    }
    let help = sandbox.mcpreel(["demo", "server", "--help"]).run().expect(0).stdout();
    text += &format!("\n```text\n{}\n```\n", help.trim());
    text += concat!(
        "\n## Exit status\n\n| status | meaning |\n|---|---|\n",
        "| 0 | done, nothing to report |\n",
        "| 1 | it could not be done: a file cannot be read or written, nothing was captured, or a report is cut off |\n",
        "| 2 | wrong usage, unreadable or newer input |\n",
        "| 3 | replay, `report`: something was asked that was not recorded, or a `--require-` option was not met |\n",
        "| 4 | `redact --check`: something is left to redact |\n",
        "| 5 | `init --check`: a file is not what this version writes |\n",
        "| 6 | another recording owns the cassette |\n",
        "| 125 | `record`, `use`, `run`, `serve --new-episodes`: mcpreel itself failed |\n",
        "| 126, 127 | the same: the command cannot be run, or was not found |\n",
        "| 128+n | the server, the agent or the recording was ended by signal n |\n",
        "| other | `record`, `use`, `run`: the server's or the agent's own status |\n"
    );
    let page = Path::new(ROOT).join("docs/reference/cli.md");
    if std::env::var_os("MCPREEL_BLESS").is_some() {
        fs::write(&page, &text).unwrap();
    }
    let kept = fs::read_to_string(&page).unwrap_or_default();
    assert!(kept == text, "docs/reference/cli.md is not what --help says; `make bless` writes it anew");
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            let there =
                target.is_empty() || target.contains("://") || page.parent().unwrap().join(target).exists();
            assert!(there, "{}: {link}", page.display());
        }
    }
}

#[test]
fn the_test_that_the_guide_shows_is_the_one_that_runs() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/guide/rust.md")).unwrap();
    let shown = page.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let run = fs::read_to_string(Path::new(ROOT).join("tests/interop/rmcp/tests/library.rs")).unwrap();
    assert!(run.ends_with(shown), "{shown}");
}
