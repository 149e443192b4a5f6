use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use super::support::*;
use super::*;

const ALL: Policy = Policy { keep: false, append: false, force: false, claim_wait: Duration::ZERO };
const ONCE: Policy = Policy { keep: true, ..ALL };

fn recording(folder: &Folder) -> Recording<'static> {
    Recording::of(&folder.path("c"), &folder.state(), &TOY)
}

fn finish(recording: &Recording<'_>, mut joined: Joined) -> Completion {
    joined.file.write_all(b"{\"end\":{\"reason\":\"client_closed\"}}\n").unwrap();
    recording.leave(joined, true).unwrap()
}

fn outcome(completion: &Completion) -> Merged {
    match completion {
        Completion::Merged { outcome, note: None, .. } => *outcome,
        other => panic!("{other:?}"),
    }
}

/// An owner that is dead: our own number with a wrong start time.
fn dead() -> Owner {
    Owner::Process { pid: std::process::id(), start_time: 1 }
}

fn ci() -> Owner {
    Owner::session("ci")
}

#[test]
fn one_recorder_leaves_a_cassette_and_nothing_else() {
    let folder = Folder::new("one");
    let recording = recording(&folder);
    let joined = record(&recording, &ci(), "my files/x", ALL, "hello");
    assert_eq!((joined.number, joined.conn, joined.continues), (1, 0, false));
    let name = joined.path.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("001-my-files-x-{}.jsonl", std::process::id()));
    assert_eq!(fs::read_to_string(folder.path("c.partial/.gitignore")).unwrap(), "*\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(fs::metadata(&joined.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(folder.path("c.partial")).unwrap().mode() & 0o777, 0o700);
    }
    assert!(matches!(find(&folder.path("c")).unwrap(), CassetteOnDisk::Recording { .. }));
    assert_eq!(outcome(&finish(&recording, joined)), Merged::Written);
    assert_eq!(folder.names(), ["c"]);
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "my files/x/0 hello\n");
    assert_eq!(find(&folder.path("c")).unwrap(), CassetteOnDisk::Document(folder.path("c")));
}

#[test]
fn recorders_of_one_owner_share_a_recording() {
    let folder = Folder::new("share");
    let recording = recording(&folder);
    let first = record(&recording, &ci(), "files", ONCE, "a");
    let second = record(&recording, &ci(), "mail", ONCE, "b");
    let third = record(&recording, &ci(), "files", ONCE, "c");
    assert_eq!([first.conn, second.conn, third.conn], [0, 0, 1]);
    let first_left = finish(&recording, first);
    assert!(
        matches!(first_left, Completion::Recording { ref pids, .. } if pids.len() == 2),
        "{first_left:?}"
    );
    assert!(matches!(finish(&recording, third), Completion::Recording { .. }));
    assert_eq!(outcome(&finish(&recording, second)), Merged::Written);
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "files/0 a\nmail/0 b\nfiles/1 c\n");
}

#[test]
fn a_process_per_call_makes_one_cassette() {
    for policy in [ONCE, ALL] {
        let folder = Folder::new("calls");
        let recording = recording(&folder);
        for (at, text) in ["probe", "a", "b"].into_iter().enumerate() {
            let joined = record(&recording, &ci(), "files", policy, text);
            assert_eq!((joined.conn as usize, joined.continues), (at, at > 0));
            assert_eq!(outcome(&finish(&recording, joined)), Merged::Written);
        }
        assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "files/0 probe\nfiles/1 a\nfiles/2 b\n");
        // For anybody else it is a cassette like any other.
        let other = Owner::session("dev");
        if policy.keep {
            assert!(matches!(recording.join(&other, "files", policy).unwrap(), Join::Replay));
        } else {
            let joined = record(&recording, &other, "files", policy, "new");
            assert_eq!((joined.conn, joined.continues), (0, false));
            assert_eq!(outcome(&finish(&recording, joined)), Merged::Written);
            assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "files/0 new\n");
        }
        assert_eq!(folder.names(), ["c"]);
    }
}

#[test]
fn a_recorder_that_captured_nothing_leaves_no_cassette_and_no_conn_twice() {
    let folder = Folder::new("nothing");
    let recording = recording(&folder);
    let first = record(&recording, &ci(), "s", ALL, "a");
    assert_eq!(recording.leave(first, false).unwrap(), Completion::Empty);
    assert_eq!(folder.names(), [""; 0]);

    let (first, second) =
        (record(&recording, &ci(), "s", ALL, "a"), record(&recording, &ci(), "s", ALL, "b"));
    assert!(matches!(recording.leave(first, false).unwrap(), Completion::Recording { .. }));
    let third = record(&recording, &ci(), "s", ALL, "c");
    assert_eq!((second.conn, third.conn), (1, 2));
}

#[test]
fn probes_replace_no_cassette_and_wait_for_the_real_process() {
    let folder = Folder::new("probes");
    let recording = recording(&folder);
    fs::write(folder.path("c"), "old/0 record\n").unwrap();
    let left = finish(&recording, record(&recording, &ci(), "s", ALL, "probe"));
    assert_eq!(left, Completion::OnlyProbes);
    assert_eq!(find(&folder.path("c")).unwrap(), CassetteOnDisk::Document(folder.path("c")));
    assert_eq!(recording.complete().unwrap(), Completion::OnlyProbes);
    let real = record(&recording, &ci(), "s", ALL, "real");
    assert_eq!(real.conn, 1);
    assert_eq!(outcome(&finish(&recording, real)), Merged::Written);
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 probe\ns/1 real\n");

    // Probes that nobody followed up are dropped by the next owner, and by the end of the session.
    assert_eq!(
        finish(&recording, record(&recording, &Owner::session("x"), "s", ALL, "probe")),
        Completion::OnlyProbes
    );
    let next = record(&recording, &Owner::session("y"), "s", ALL, "y");
    assert_eq!(next.conn, 0);
    assert_eq!(outcome(&finish(&recording, next)), Merged::Written);
    assert_eq!(
        finish(&recording, record(&recording, &Owner::session("z"), "s", ALL, "probe")),
        Completion::OnlyProbes
    );
    assert_eq!(recording.end("z", Duration::ZERO).unwrap(), Completion::OnlyProbes);
    assert_eq!(folder.names(), ["c"]);
}

#[test]
fn another_owner_waits_and_is_refused_or_replays() {
    let folder = Folder::new("wait");
    let recording = recording(&folder);
    let first = record(&recording, &ci(), "s", ONCE, "a");
    let other = Owner::session("dev");
    for policy in [ONCE, ALL] {
        match recording.join(&other, "s", policy) {
            Err(Error::Owned { holder, .. }) => {
                assert_eq!(holder, format!("session ci, recorded by process {}", std::process::id()));
            }
            got => panic!("{got:?}"),
        }
    }
    let patient = Policy { claim_wait: Duration::from_secs(10), ..ONCE };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| recording.join(&other, "s", patient).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(outcome(&finish(&recording, first)), Merged::Written);
        assert!(matches!(waiting.join().unwrap(), Join::Replay));
    });
    // With a cassette there, once replays what is there while somebody records anew.
    let again = record(&recording, &Owner::session("third"), "s", ALL, "b");
    assert!(matches!(recording.join(&other, "s", ONCE).unwrap(), Join::Replay));
    assert_eq!(outcome(&finish(&recording, again)), Merged::Written);
    assert_eq!(folder.names(), ["c"]);
}

#[test]
fn many_at_once_of_one_owner() {
    let folder = Folder::new("many");
    let recording = recording(&folder);
    let merges = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let joined = record(&recording, &ci(), "s", ALL, "x");
                match finish(&recording, joined) {
                    Completion::Merged { .. } => _ = merges.fetch_add(1, Ordering::Relaxed),
                    Completion::Recording { .. } => {}
                    other => panic!("{other:?}"),
                }
            });
        }
    });
    assert!(merges.into_inner() >= 1);
    let text = fs::read_to_string(folder.path("c")).unwrap();
    let mut conns: Vec<u32> =
        text.lines().map(|line| line[2..].split(' ').next().unwrap().parse().unwrap()).collect();
    conns.sort_unstable();
    assert_eq!(conns, (0..12).collect::<Vec<_>>());
    assert_eq!(folder.names(), ["c"]);
}

#[test]
fn readers_see_a_whole_cassette_at_every_moment() {
    let folder = Folder::new("readers");
    let recording = recording(&folder);
    assert_eq!(outcome(&finish(&recording, record(&recording, &ci(), "s", ALL, "0"))), Merged::Written);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for text in 1..100 {
                finish(&recording, record(&recording, &dead(), "s", ALL, &text.to_string()));
            }
        });
        while !writer.is_finished() {
            match find(&folder.path("c")).unwrap() {
                CassetteOnDisk::Document(_) => {}
                CassetteOnDisk::Segments { segments, .. } => {
                    assert!(!segments.iter().any(|segment| segment.killed));
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn killed_recorders_of_a_living_owner_are_merged_and_marked() {
    let folder = Folder::new("killed");
    let recording = recording(&folder);
    kill(record(&recording, &ci(), "s", ALL, "a"));
    let completion = recording.complete().unwrap();
    assert_eq!(outcome(&completion), Merged::Written);
    assert!(completion.warning().unwrap().contains("killed"));
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 a!\n");
}

#[test]
fn killed_recorders_are_merged_when_another_ended_well() {
    let folder = Folder::new("partly");
    let recording = recording(&folder);
    kill(record(&recording, &dead(), "s", ALL, "a"));
    let joined = record(&recording, &dead(), "t", ALL, "b");
    assert_eq!(outcome(&finish(&recording, joined)), Merged::Written);
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 a!\nt/0 b\n");
}

#[test]
fn interrupted_recordings_are_set_aside_by_the_next_writer() {
    let folder = Folder::new("interrupted");
    let recording = recording(&folder);
    for number in 1..=2 {
        kill(record(&recording, &dead(), "s", ALL, "a"));
        assert!(matches!(recording.complete().unwrap(), Completion::Interrupted { .. }));
        assert!(
            matches!(find(&folder.path("c")).unwrap(), CassetteOnDisk::Interrupted { folders } if folders.len() == number)
        );
        let joined = record(&recording, &ci(), "s", ONCE, "b");
        let aside = folder.path(&format!("c.partial.{number}"));
        assert!(joined.notes[0].contains(aside.to_str().unwrap()), "{:?}", joined.notes);
        assert_eq!(segments_in(&aside).unwrap().len(), 1);
        assert_eq!(recording.leave(joined, false).unwrap(), Completion::Empty);
    }
    match find(&folder.path("c")).unwrap() {
        CassetteOnDisk::Interrupted { folders } => assert_eq!(folders.len(), 2),
        other => panic!("{other:?}"),
    }
    kill(record(&recording, &dead(), "s", ALL, "c"));
    assert_eq!(outcome(&recording.recover().unwrap()), Merged::Written);
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 c!\n");
}

#[test]
fn what_was_killed_is_set_aside_by_who_would_replace_it_and_merged_by_others() {
    let owners = [ci(), Owner::this_process(), dead()];
    let append = Policy { append: true, ..ALL };
    for (owner, partly) in owners.iter().flat_map(|owner| [(owner, false), (owner, true)]) {
        for (policy, begins) in [(ALL, false), (ALL, true), (append, false), (append, true), (ONCE, false)] {
            let folder = Folder::new("replaced");
            let recording = recording(&folder);
            let (one, two) =
                (record(&recording, owner, "s", ALL, "a"), record(&recording, owner, "t", ALL, "b"));
            if partly {
                assert!(matches!(finish(&recording, one), Completion::Recording { .. }));
            } else {
                kill(one);
            }
            kill(two);
            let next = Owner::session("next");
            if begins {
                assert_eq!(recording.claim(&next, false, Duration::ZERO).unwrap(), Begun::Record);
            }
            let joined = recording.join(&next, "s", policy).unwrap();
            let aside = folder.path("c.partial.1");
            let merged = *owner != dead() || partly;
            if policy.keep || policy.append {
                assert_eq!(folder.path("c").exists(), merged, "{owner:?} {policy:?}");
                assert_eq!(aside.exists(), !merged, "{owner:?} {policy:?}");
            } else {
                let Join::Record(joined) = joined else { panic!() };
                assert!(joined.notes[0].contains(aside.to_str().unwrap()), "{:?}", joined.notes);
                assert_eq!(segments_in(&aside).unwrap().len(), 2, "{owner:?}");
                assert!(!folder.path("c").exists(), "{owner:?}");
            }
        }
    }
}

#[test]
fn segments_without_a_record_count_for_nothing() {
    for content in ["", "{\"mcpreel\":1}", "{\"mcpreel\":1}\n", "{\"mcpreel\":1}\n{\"from\":\"cli"] {
        let folder = Folder::new("void");
        let recording = recording(&folder);
        let Join::Record(mut joined) = recording.join(&dead(), "s", ALL).unwrap() else { panic!() };
        joined.file.write_all(content.as_bytes()).unwrap();
        kill(*joined);
        assert_eq!(recording.complete().unwrap(), Completion::Empty, "{content}");
        assert_eq!(folder.names(), [""; 0]);
    }
}

#[test]
fn force_takes_over_and_the_other_one_sees_it() {
    let folder = Folder::new("force");
    let recording = recording(&folder);
    let first = record(&recording, &ci(), "s", ALL, "a");
    assert!(first.claim.still_mine());
    let second = record(&recording, &Owner::session("dev"), "s", Policy { force: true, ..ALL }, "b");
    assert!(second.notes[0].contains("taken over from session ci"), "{:?}", second.notes);
    assert!(!first.claim.still_mine() && second.claim.still_mine());
    assert_eq!(first.claim.loss(), "the recording was taken over by session dev");
    assert!(matches!(recording.leave(first, true).unwrap(), Completion::Lost { .. }));
    assert_eq!(outcome(&finish(&recording, second)), Merged::Written);
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 b\n");
    assert_eq!(segments_in(&folder.path("c.partial.1")).unwrap().len(), 1, "what it had is kept");
}

#[test]
fn a_folder_that_is_gone_is_lost() {
    let folder = Folder::new("gone");
    let recording = recording(&folder);
    let joined = record(&recording, &ci(), "s", ALL, "a");
    fs::remove_dir_all(folder.path("c.partial")).unwrap();
    assert!(!joined.claim.still_mine());
    let left = recording.leave(joined, true).unwrap();
    assert_eq!(left, Completion::Lost { what: "the recording folder was removed".into() });
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn a_merge_that_failed_is_done_once_by_whoever_comes_later() {
    for (fails, before) in [(Fails::Early, true), (Fails::BeforeRename, true), (Fails::AfterRename, false)] {
        let folder = Folder::new("crash");
        let recording = recording(&folder);
        assert_eq!(outcome(&finish(&recording, record(&recording, &ci(), "s", ALL, "a"))), Merged::Written);
        // It continues a cassette, so that a second merge would double it.
        let toy = Toy { fails: Some(fails) };
        let failing = Recording::of(&folder.path("c"), &folder.state(), &toy);
        let mut joined = record(&failing, &ci(), "s", ALL, "b");
        joined.file.write_all(b"{\"end\":{}}\n").unwrap();
        assert!(failing.leave(joined, true).is_err());
        let found = find(&folder.path("c")).unwrap();
        assert_eq!(matches!(found, CassetteOnDisk::Segments { onto: Some(_), .. }), before, "{found:?}");
        let next = record(&recording, &Owner::session("dev"), "s", ALL, "c");
        assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 a\ns/1 b\n");
        assert_eq!(recording.leave(next, false).unwrap(), Completion::Empty);
        assert_eq!(folder.names(), ["c"]);
        // The owner can go on, since the cassette is still known to be its own.
        let again = record(&recording, &ci(), "s", ONCE, "d");
        assert_eq!((again.conn, again.continues), (2, true));
    }
}

#[test]
fn an_unreadable_session_file_is_rebuilt_from_the_heads() {
    let folder = Folder::new("rebuilt");
    let recording = recording(&folder);
    assert_eq!(outcome(&finish(&recording, record(&recording, &ci(), "s", ALL, "a"))), Merged::Written);
    let first = record(&recording, &ci(), "s", ALL, "b");
    fs::write(folder.path("c.partial/session.json"), "{\"owner\":\"sess").unwrap();
    let second = record(&recording, &ci(), "s", ALL, "c");
    assert_eq!((second.number, second.conn, second.continues), (2, 2, true));
    assert!(first.claim.still_mine());
    assert!(matches!(finish(&recording, first), Completion::Recording { .. }));
    assert_eq!(outcome(&finish(&recording, second)), Merged::Written);
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 a\ns/1 b\ns/2 c\n");
}

#[test]
fn ending_a_session() {
    let folder = Folder::new("end");
    let recording = recording(&folder);
    let unknown = recording.end("ci", Duration::ZERO).unwrap_err().to_string();
    assert!(unknown.contains("no session ci here"), "{unknown}");
    kill(record(&recording, &ci(), "s", ALL, "a"));
    assert!(recording.end("dev", Duration::ZERO).is_err());
    assert_eq!(outcome(&recording.end("ci", Duration::ZERO).unwrap()), Merged::Written);
    assert!(recording.end("ci", Duration::ZERO).is_err(), "it is ended already");
    assert!(matches!(recording.join(&ci(), "s", ONCE).unwrap(), Join::Replay), "a new session of that name");

    // Recorders that still run: nobody else of that name joins them, and the last one merges.
    let running = record(&recording, &ci(), "s", ALL, "b");
    assert!(matches!(recording.end("ci", Duration::ZERO).unwrap(), Completion::Recording { .. }));
    assert!(matches!(recording.join(&ci(), "s", ALL), Err(Error::Owned { .. })));
    assert!(running.claim.still_mine());
    assert_eq!(outcome(&finish(&recording, running)), Merged::Written);
    assert!(!record(&recording, &ci(), "s", ALL, "c").continues);
}

#[test]
fn ending_waits_for_recorders_that_are_leaving() {
    let folder = Folder::new("end-wait");
    let recording = recording(&folder);
    let running = record(&recording, &ci(), "s", ALL, "a");
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| {
            recording.end("ci@", Duration::ZERO).is_err()
                && recording.end("ci", Duration::from_secs(10)).is_ok()
        });
        std::thread::sleep(Duration::from_millis(60));
        finish(&recording, running);
        assert!(ending.join().unwrap());
    });
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 a\n");
}

#[test]
fn what_is_no_cassette_is_not_recorded_over() {
    let folder = Folder::new("foreign");
    fs::write(folder.path("c"), "foreign").unwrap();
    for policy in [ONCE, ALL] {
        assert!(matches!(recording(&folder).join(&ci(), "s", policy), Err(Error::Input { .. })));
        assert_eq!(folder.names(), ["c"]);
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_io_error() {
    let folder = Folder::new("unwritable");
    fs::write(folder.path("file"), "").unwrap();
    let recording = Recording::of(&folder.path("file/c"), &folder.state(), &TOY);
    let error = recording.join(&ci(), "s", ALL).unwrap_err();
    assert!(error.to_string().starts_with("cannot make the cassette's folder "), "{error}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", folder.path("c.partial")).unwrap();
        let error =
            Recording::of(&folder.path("c"), &folder.state(), &TOY).join(&ci(), "s", ALL).unwrap_err();
        assert!(error.to_string().contains("a link is in its place"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn all_names_of_a_cassette_lead_to_one_recording() {
    let folder = Folder::new("links");
    fs::create_dir(folder.path("real")).unwrap();
    std::os::unix::fs::symlink("real/c", folder.path("c")).unwrap();
    std::os::unix::fs::symlink("real", folder.path("other")).unwrap();
    let target = folder.path("real/c");
    assert_eq!(resolve(&folder.path("c")), target, "a link that leads to no file yet");
    assert_eq!(resolve(&folder.path("other/../other/c")), target);
    let recording = recording(&folder);
    assert_eq!(outcome(&finish(&recording, record(&recording, &ci(), "s", ALL, "a"))), Merged::Written);
    assert!(folder.path("c").is_symlink());
    assert_eq!(fs::read_to_string(target).unwrap(), "s/0 a\n");
}

#[test]
fn the_end_line_is_found_behind_a_long_one() {
    let folder = Folder::new("tail");
    let long = "x".repeat(300_000);
    for (at, (content, killed)) in [
        (format!("{{}}\n{long}\n{{\"end\":{{}}}}\n"), false),
        (format!("{{}}\n{{\"end\":{{\"x\":\"{long}\"}}}}\n"), false),
        (format!("{{}}\n{{\"end\":{{}}}}\n{long}\n"), true),
        (format!("{{}}\n{long}\n{{\"end\":{{}}}}"), true),
        ("{\"end\":{}}\n".to_owned(), false),
        (String::new(), true),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(folder.path("001-s-1.jsonl"), content).unwrap();
        assert_eq!(segments_in(&folder.path("")).unwrap()[0].killed, killed, "row {at}");
    }
}

/// Not a test by itself: the process that the next test starts and kills.
#[test]
fn helper_process() {
    let Some(path) = std::env::var_os("MCPREEL_TEST_CASSETTE").map(PathBuf::from) else { return };
    let state = State::in_folder(path.with_file_name("state"));
    let recording = Recording::of(&path, &state, &TOY);
    let _joined = record(&recording, &Owner::find(None, &["no".into(), "launcher".into()]), "s", ONCE, "x");
    fs::write(path.with_file_name("ready"), "").unwrap();
    std::thread::sleep(Duration::from_mins(1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_is_killed_leaves_its_segment() {
    let folder = Folder::new("process");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cassette::segments::tests::helper_process"])
        .env("MCPREEL_TEST_CASSETTE", folder.path("c"))
        .env_remove("MCPREEL_SESSION")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !folder.path("ready").exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "the process did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let recording = recording(&folder);
    match recording.complete().unwrap() {
        Completion::Recording { pids, .. } => assert_eq!(pids, [child.id()]),
        other => panic!("{other:?}"),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Its owner is its client, which is this process, which is alive.
    assert_eq!(outcome(&recording.complete().unwrap()), Merged::Written);
    assert_eq!(fs::read_to_string(folder.path("c")).unwrap(), "s/0 x!\n");
    match folder.state().maker(&folder.path("c")) {
        Some(Owner::Process { pid, .. }) => assert_eq!(pid, std::process::id()),
        other => panic!("{other:?}"),
    }
}
