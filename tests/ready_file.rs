//! `--ready-file`: who waits for it finds the URL of this run or nothing.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

use crate::support::replay::handshake;
use crate::support::{Sandbox, eventually};

const STALE: &str = "http://127.0.0.1:9/mcp\n";
const TRACKER: &str = "http://127.0.0.1:9/tracker";

/// The commands that listen, by what they are to do.
const LISTENERS: [&[&str]; 6] = [
    &["serve", "c.json", "--listen", "127.0.0.1:0"],
    &["serve", "new.json", "--new-episodes", "--url", TRACKER],
    &["record", "--cassette", "r.json", "--url", TRACKER],
    &["use", "--cassette", "u.json", "--url", TRACKER],
    &["use", "--cassette", "c.json", "--mode", "none", "--url", TRACKER],
    &["demo", "server", "--listen", "127.0.0.1:0"],
];

#[test]
fn it_is_that_of_this_run() {
    for arguments in LISTENERS {
        let sandbox = Sandbox::new();
        sandbox.tape_with("", &handshake());
        let path = sandbox.file("ready", STALE);
        let client = sandbox.mcpreel(arguments.iter().chain(&["--ready-file", "ready"])).start();
        eventually("another URL", || fs::read_to_string(&path).is_ok_and(|url| url != STALE));
        let url = sandbox.read("ready");
        assert!(url.starts_with("http://127.0.0.1:") && url.ends_with('\n'), "{arguments:?}: {url}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{arguments:?}");
        assert!(client.stderr().contains(&format!("listening on {url}")), "{arguments:?}");
        let beside: Vec<_> = fs::read_dir(&sandbox.path).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(!beside.iter().any(|name| name.to_string_lossy().starts_with("ready.")), "{beside:?}");
        client.signal(15);
        // What records fails without a message.
        let records = ["new.json", "r.json", "u.json"].iter().any(|cassette| arguments.contains(cassette));
        client.end(u8::from(records).into());
    }
}

#[test]
fn the_one_of_an_earlier_run_goes_before_anything_else() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["serve", "no-such.json"][..],
        &["serve", "c.json", "--url", TRACKER],
        &["record", "--cassette", "", "--url", TRACKER],
        &["use", "--cassette", "c.json", "--mode", "none", "--url", TRACKER],
        &["demo", "server", "--listen", "x"],
    ] {
        sandbox.file("ready", STALE);
        sandbox.mcpreel(arguments.iter().chain(&["--ready-file", "ready"])).run().expect(2);
        assert!(!sandbox.has("ready"), "{arguments:?}");
    }
}

#[test]
fn what_is_no_regular_file_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    sandbox.file("elsewhere", STALE);
    std::os::unix::fs::symlink("elsewhere", sandbox.path.join("link")).unwrap();
    fs::create_dir(sandbox.path.join("folder")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(sandbox.path.join("pipe")).status().unwrap();
    assert!(made.success());
    for name in ["link", "folder", "pipe"] {
        for arguments in LISTENERS {
            let said =
                sandbox.mcpreel(arguments.iter().chain(&["--ready-file", name])).run().expect(2).stderr();
            let expected = format!(
                "mcpreel: --ready-file {name}: is there and no regular file; name one that may be replaced\n"
            );
            assert_eq!(said, expected, "{arguments:?}");
        }
    }
    assert_eq!(sandbox.read("elsewhere"), STALE);
    assert!(fs::symlink_metadata(sandbox.path.join("link")).unwrap().is_symlink());
    assert!(fs::metadata(sandbox.path.join("pipe")).unwrap().file_type().is_fifo());
}
