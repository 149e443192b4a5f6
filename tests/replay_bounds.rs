//! What a client asks without end is counted, and held in bounds.

use crate::support::Sandbox;
use crate::support::replay::{answered, call, handshake};

#[test]
fn the_report_names_the_first_misses_and_counts_the_others() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let calls: Vec<String> = (1..1004).map(|id| call(&id.to_string(), "t", "{}")).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let said =
        sandbox.mcpreel(["serve", "c.json", "--report", "r.jsonl"]).lines(&calls).run().expect(3).stderr();
    let bounded =
        "mcpreel: there were more than 1000 misses: the report names the first ones, and counts the others\n";
    assert_eq!(said.matches(bounded).count(), 1);
    assert!(said.ends_with("mcpreel: 1003 requests without a recorded answer\n"), "{said}");
    let report: serde_json::Value = serde_json::from_str(sandbox.read("r.jsonl").trim()).unwrap();
    assert_eq!(report["misses"].as_array().unwrap().len(), 1000);
    assert_eq!(report["misses_left_out"], 3);
    let summary =
        |format: &str| sandbox.mcpreel(["report", "r.jsonl", "--format", format]).run().expect(3).stdout();
    assert!(summary("text").contains("1003 misses"), "{}", summary("text"));
    assert!(summary("json").contains("\"misses_left_out\": 3"), "{}", summary("json"));
    // As many as it holds are no more than that.
    let said = sandbox
        .mcpreel(["serve", "c.json", "--report", "s.jsonl"])
        .lines(&calls[..1000])
        .run()
        .expect(3)
        .stderr();
    assert!(!said.contains(bounded) && !sandbox.read("s.jsonl").contains("left_out"));
}

#[test]
fn requests_that_are_answered_by_rule_are_named_up_to_a_number() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let pings: Vec<String> =
        (1..1003).map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"logging/setLevel"}}"#)).collect();
    let pings: Vec<&str> = pings.iter().map(String::as_str).collect();
    let said =
        sandbox.mcpreel(["serve", "c.json", "--report", "r.jsonl"]).lines(&pings).run().expect(0).stderr();
    let bounded = "mcpreel: more than 1000 requests were answered by rule: the report names the first ones\n";
    assert_eq!(said.matches(bounded).count(), 1, "{said}");
    let report: serde_json::Value = serde_json::from_str(sandbox.read("r.jsonl").trim()).unwrap();
    assert_eq!(report["unrecorded"].as_array().unwrap().len(), 1000);
}

#[test]
fn what_is_very_large_is_not_looked_at_for_the_nearest_request_unless_it_is_the_first() {
    let pad = "x".repeat(2 << 20);
    let (small, large) = (r#"{"q":"a","m":1,"n":2}"#.to_owned(), format!(r#"{{"q":"b","pad":"{pad}"}}"#));
    let asked = call("9", "t", &format!(r#"{{"q":"c","pad":"{pad}"}}"#));
    for (records, nearest) in [([&small, &large], 0), ([&large, &small], 0)] {
        let sandbox = Sandbox::new();
        let records: Vec<String> = ["1", "2"]
            .iter()
            .zip(records)
            .flat_map(|(id, arguments)| answered(id, "t", arguments, "x"))
            .collect();
        sandbox.tape_with("", &records);
        let done = sandbox.mcpreel(["serve", "-q", "c.json"]).lines(&[&asked]).run().expect(3);
        assert!(
            done.stdout().contains(&format!("\"nearest\":{{\"message\":{nearest},")),
            "{}",
            done.stdout()
        );
    }
}
