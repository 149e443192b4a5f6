//! `make bench`: how fast mcpreel is, from the outside, as a client sees it. See `run` beside this file.
//!
//! This program is also the servers that it records: `bench echo`, `bench drain`, `bench answer BYTES` and `bench web
//! BYTES` are as bare as a server can be, so that what is measured is what stands between.

// A measurement that cannot be taken ends the run, and the table goes to standard output.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::indexing_slicing)]

mod cassettes;
mod client;
mod http;
mod load;
mod pace;
mod record;
mod replay;
mod servers;
mod start;
mod table;
#[path = "../support/tls.rs"]
#[allow(unreachable_pub)]
mod tls;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use table::Table;

/// What is measured, and what it is measured against.
struct Bench {
    /// The mcpreel under test.
    program: PathBuf,
    /// This program, for its servers.
    own: PathBuf,
    /// mcp-cassette, where installed.
    theirs: Option<PathBuf>,
    /// Where cassettes are made; removed at the end.
    folder: PathBuf,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["echo"] => servers::echo(),
        ["drain"] => servers::drain(),
        ["answer", size] => servers::answer(size.parse().expect("a number of bytes")),
        ["web", size] => web::answer(size.parse().expect("a number of bytes")),
        [program, theirs, wanted @ ..] => measure(program, theirs, wanted),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

type Part = fn(&Bench, &mut Table);

fn measure(program: &str, theirs: &str, wanted: &[&str]) {
    let folder = std::env::temp_dir().join(format!("mcpreel-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the cassettes");
    let bench = Bench {
        program: Path::new(program).canonicalize().expect("the program to measure"),
        own: std::env::current_exe().expect("the path of this program"),
        theirs: (!theirs.is_empty()).then(|| PathBuf::from(theirs)),
        folder,
    };
    let mut table = Table::default();
    let parts: [(&str, Part); 7] = [
        ("start", start::measure),
        ("replay", replay::measure),
        ("pace", pace::measure),
        ("record", record::measure),
        ("load", load::measure),
        ("http", http::measure),
        ("end", record::measure_end),
    ];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.contains(&name) {
            part(&bench, &mut table);
        }
    }
    // What is left there is in a temporary folder, where it does no harm.
    let _ = std::fs::remove_dir_all(&bench.folder);
}
