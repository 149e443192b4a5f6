use super::*;
use crate::cassette::owner::tests::Table;
use crate::cassette::segments::support::{Folder, TOY, begin, kill};

/// A tree in which we are process 9, below 8 and 7.
fn tree(on_8: &'static str, on_7: &'static str) -> Table {
    let table = Table::default().with(7, 0, &["bash"]).env("MCPREEL_MODE", on_7);
    table.with(8, 7, &["node"]).env("MCP_CASSETTE_MODE", on_8).with(9, 8, &["mcpreel"])
}

fn choose(table: &Table, own: (&str, &str), option: Option<&str>, configuration: Option<&str>) -> String {
    let variable = |name: &str| (name == own.0).then(|| OsString::from(own.1));
    let environment = Environment { own: &variable, pid: 9, processes: table };
    let configuration = configuration.map(|mode| (mode, Path::new("project/mcpreel.toml")));
    choose_among(&environment, option, configuration)
        .map_or_else(|e| e.to_string(), |chosen| chosen.to_string())
}

#[test]
fn the_highest_mode_holds() {
    let none = tree("", "");
    let own = ("", "");
    let rows = [
        (choose(&none, own, None, None), "mode once (default)"),
        (choose(&none, own, None, Some("all")), "mode all (mcpreel.toml)"),
        (choose(&none, own, Some("none"), Some("all")), "mode none (--mode)"),
        (
            choose(&none, ("MCPREEL_MODE", "all"), Some("none"), None),
            "mode all (MCPREEL_MODE in the environment)",
        ),
        (choose(&none, ("MCPREEL_MODE", ""), Some("none"), None), "mode none (--mode)"),
        (
            choose(&none, ("MCP_CASSETTE_MODE", "none"), Some("all"), None),
            "mode none (MCP_CASSETTE_MODE in the environment)",
        ),
        (
            choose(&tree("all", ""), own, Some("once"), None),
            "mode all (MCP_CASSETTE_MODE in the environment of process 8)",
        ),
        (
            choose(&tree("all", "none"), ("MCP_CASSETTE_MODE", "once"), None, None),
            "mode none (MCPREEL_MODE in the environment of process 7)",
        ),
        (
            choose(&none, own, Some("episodes"), None),
            "unknown mode episodes (--mode); valid are: once, none, all, new_episodes",
        ),
        (
            choose(&tree("", "Once"), own, None, None),
            "unknown mode Once (MCPREEL_MODE in the environment of process 7); valid are: once, none, all, new_episodes",
        ),
    ];
    for (at, (got, wanted)) in rows.into_iter().enumerate() {
        assert_eq!(got, wanted, "row {at}");
    }
}

#[test]
fn a_bare_record_obeys_none_only() {
    let check = |mode: &'static str| {
        check_may_record_among(&Environment { own: &|_| None, pid: 9, processes: &tree("", mode) })
    };
    let refused = check("none").unwrap_err();
    assert_eq!(refused.code(), 2);
    assert!(
        refused.to_string().starts_with("mode none (MCPREEL_MODE in the environment of process 7): "),
        "{refused}"
    );
    assert!(check("once").is_ok() && check("all").is_ok() && check("").is_ok());
    assert_eq!(check("nine").unwrap_err().code(), 2);
}

/// A cassette and its state, and the owners of the table.
struct Scene {
    folder: Folder,
    state: State,
}

impl Scene {
    fn new() -> Self {
        let folder = Folder::new("door");
        Self { state: folder.state(), folder }
    }

    fn decide(&self, mode: Mode, owner: &str) -> Result<Decision> {
        let cassette = self.folder.path("c");
        decide(&Question {
            mode,
            cassette: &cassette,
            server: "s",
            owner: &Owner::session(owner),
            force: false,
            claim_wait: Some(Duration::ZERO),
            state: &self.state,
            documents: &TOY,
        })
    }

    fn record(&self, mode: Mode, owner: &str, text: &str) -> Box<Joined> {
        match self.decide(mode, owner).unwrap() {
            Decision::Record(mut joined) => {
                begin(&mut joined, text);
                joined
            }
            other => panic!("{other:?}"),
        }
    }

    fn leave(&self, joined: Joined) {
        Recording::of(&self.folder.path("c"), &self.state, &TOY).leave(joined, true).unwrap();
    }

    /// What comes of a decision, in one word; what it began is left again at once.
    fn outcome(&self, mode: Mode, owner: &str) -> String {
        match self.decide(mode, owner) {
            Ok(Decision::Append { joined, source }) => {
                assert_eq!(source, CassetteOnDisk::Document(self.folder.path("c")));
                let word = format!("append {}", joined.conn);
                Recording::of(&self.folder.path("c"), &self.state, &TOY).leave(*joined, false).unwrap();
                word
            }
            Ok(Decision::Record(joined)) => {
                let word = format!("record {}", joined.conn);
                Recording::of(&self.folder.path("c"), &self.state, &TOY).leave(*joined, false).unwrap();
                word
            }
            Ok(Decision::Replay { .. }) => "replay".to_owned(),
            Err(error) => format!("exit {}", error.code()),
        }
    }
}

#[test]
fn the_mode_table() {
    // Each row: the mode; then what comes of it with no other recorder, with one of my owner alive, with an earlier
    // one of my owner that made the cassette, and with one of another owner alive.
    let rows: &[(Mode, &str, [&str; 4])] = &[
        (Mode::Once, "absent", ["record 0", "record 1", "record 1", "exit 6"]),
        (Mode::Once, "probe", ["record 0", "record 1", "record 2", "exit 6"]),
        (Mode::Once, "present", ["replay", "record 1", "record 1", "replay"]),
        (Mode::None, "absent", ["exit 2", "exit 2", "replay", "exit 2"]),
        (Mode::None, "present", ["replay", "replay", "replay", "replay"]),
        (Mode::All, "absent", ["record 0", "record 1", "record 1", "exit 6"]),
        (Mode::All, "present", ["record 0", "record 1", "record 1", "exit 6"]),
        (Mode::NewEpisodes, "absent", ["record 0", "record 1", "append 1", "exit 6"]),
        // Who records anew, and is not done with that, goes on with it.
        (Mode::NewEpisodes, "present", ["append 1", "record 1", "record 1", "exit 6"]),
    ];
    for (mode, cassette, wanted) in rows {
        let got = [0, 1, 2, 3].map(|column| {
            let scene = Scene::new();
            match *cassette {
                "probe" => std::fs::write(scene.folder.path("c"), "s/0 probe\n").unwrap(),
                "present" => std::fs::write(scene.folder.path("c"), "s/0 old\n").unwrap(),
                _ => {}
            }
            match column {
                0 => scene.outcome(*mode, "me"),
                1 | 3 => {
                    let joined = scene.record(Mode::All, if column == 1 { "me" } else { "other" }, "x");
                    let word = scene.outcome(*mode, "me");
                    assert!(joined.claim.still_mine());
                    word
                }
                _ => {
                    let joined =
                        scene.record(Mode::All, "me", if *cassette == "probe" { "probe" } else { "x" });
                    scene.leave(*joined);
                    if *cassette == "probe" {
                        // Probes do not replace the cassette: they wait, and so the next one but one counts on.
                        let joined = scene.record(Mode::Once, "me", "x");
                        scene.leave(*joined);
                    }
                    scene.outcome(*mode, "me")
                }
            }
        });
        assert_eq!(got, *wanted, "{mode:?} with the cassette {cassette}");
    }
}

#[test]
fn recording_on_says_so() {
    let scene = Scene::new();
    let first = scene.record(Mode::Once, "me", "x");
    assert_eq!(first.notes, [""; 0]);
    scene.leave(*first);
    let second = scene.record(Mode::Once, "me", "y");
    assert_eq!(
        second.notes,
        ["session me made this cassette and is still there: recording goes on until it ends"]
    );
}

#[test]
fn none_says_what_is_missing() {
    let scene = Scene::new();
    let missing = |scene: &Scene| scene.decide(Mode::None, "me").unwrap_err().to_string();
    assert!(missing(&scene).contains("no such cassette"));
    let joined = scene.record(Mode::Once, "ci", "x");
    assert!(missing(&scene).contains("session ci is recording it"));
    kill(*joined);
    assert_eq!(scene.outcome(Mode::None, "me"), "replay", "who was killed is merged while the session lives");
    // A session whose process is dead leaves an interrupted recording.
    std::fs::remove_file(scene.folder.path("c")).unwrap();
    kill(*scene.record(Mode::Once, "ci@4194305", "x"));
    let both = missing(&scene);
    assert!(both.contains("c.partial; `mcpreel recover`") && both.contains("/c: no cassette"), "{both}");
}

#[test]
fn end_is_for_sessions() {
    let scene = Scene::new();
    let cassette = scene.folder.path("c");
    scene.leave(*scene.record(Mode::Once, "ci", "x"));
    assert_eq!(scene.outcome(Mode::Once, "ci"), "record 1");
    assert_eq!(end(&cassette, "ci", &scene.state, &TOY).unwrap(), Completion::Absent);
    assert_eq!(scene.outcome(Mode::Once, "ci"), "replay");
    assert_eq!(end(&cassette, "ci", &scene.state, &TOY).unwrap_err().code(), 2);
}

#[cfg(unix)]
#[test]
fn what_can_only_be_read_is_replayed() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    std::fs::write(scene.folder.path("c"), "s/0 old\n").unwrap();
    // Root may write anywhere: a file in the place of the folder stands in the way of everybody.
    std::fs::write(scene.folder.path("c.partial"), "").unwrap();
    std::fs::set_permissions(scene.folder.path("c.partial"), std::fs::Permissions::from_mode(0o400)).unwrap();
    match scene.decide(Mode::Once, "me").unwrap() {
        Decision::Replay { source, notes } => {
            assert_eq!(source, CassetteOnDisk::Document(scene.folder.path("c")));
            assert!(notes[0].starts_with("replaying, since recording is not possible: "), "{notes:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(scene.decide(Mode::All, "me"), Err(Error::Io { .. })));
}
