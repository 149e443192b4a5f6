//! `report` says why a process failed that met no miss.

use crate::report::row;
use crate::run::run;
use crate::support::{MCPREEL, Sandbox};

#[test]
fn why_a_process_failed_otherwise_is_told() {
    let sandbox = Sandbox::new();
    sandbox.mcpreel(["serve", "none.json", "--session", "n", "--report", "r.jsonl"]).run().expect(2);
    let other =
        |code: u8| row(r#""session":"a","#, "", "", "").replace("\"exit\":0", &format!("\"exit\":{code}"));
    let failed = row("", "", "", r#","recorded":3,"failed":"the disk is full""#);
    let more = [other(3), other(125), failed.replace("\"exit\":0", "\"exit\":125")].join("\n");
    sandbox.file("more.jsonl", more);
    let run = |format: &str| {
        let said = sandbox.mcpreel(["report", "r.jsonl", "more.jsonl", "--format", format]).run().expect(3);
        said.stdout().replace(&*sandbox.path.canonicalize().unwrap().to_string_lossy(), "")
    };
    let absent = "none.json: no such cassette; record it first, with `mcpreel record` or in mode once";
    assert_eq!(
        run("text"),
        format!(
            "4 replays: 4 processes that failed\n\n\
             /c.json, server demo: 3 processes, 6 hits, 3 repeats, 0 misses\n  \
             a process recorded less than was said: the disk is full\n  \
             a process (session a) ended with status 125\n  \
             a process (session a) ended with status 3: a requirement was not met\n\n\
             /none.json: 1 process, 0 hits, 0 repeats, 0 misses\n  \
             a process (session n) could not begin: {absent}\n"
        )
    );
    for (format, expected) in [
        ("md", format!("- ``could not begin: {absent}`` (`session n`)\n")),
        ("md", "- `ended with status 125` (`session a`)\n".to_owned()),
        ("json", "\"what\": \"recorded less than was said: the disk is full\"".to_owned()),
        ("junit", format!("message=\"1 process failed\">a process could not begin: {absent}</failure>")),
    ] {
        let said = run(format);
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_report_that_run_cannot_write_makes_its_status_125() {
    let sandbox = Sandbox::new();
    let server = format!(r#"{{"command":"{MCPREEL}","args":["demo","server"]}}"#);
    sandbox.file("mcp.json", format!(r#"{{"mcpServers":{{"demo":{server}}}}}"#));
    run(&sandbox, &["-q"], &[]).run().expect(0);
    let said = run(&sandbox, &["-q", "--report", "/dev/full"], &[]).run().expect(125).stderr();
    assert_eq!(said, "mcpreel: cannot write the report /dev/full: no space left on device\n");
}
