//! The helper files that `init` writes: what it writes, and what it leaves alone.

use crate::support::Sandbox;

const PYTEST: &str = "tests/mcpreel_pytest.py";

/// Runs `init` with these arguments; gives the status and all that was said.
fn init(sandbox: &Sandbox, arguments: &str) -> (i32, String) {
    let done = sandbox.mcpreel(["init"].into_iter().chain(arguments.split_whitespace())).run();
    (done.code(), done.stdout() + &done.stderr())
}

#[test]
fn a_file_is_written_and_found_up_to_date() {
    for (runner, files, more) in [
        ("pytest", &["mcpreel_pytest.py"][..], "tests/conftest.py written\n"),
        ("vitest", &["mcpreel_vitest.mjs", "mcpreel_vitest.d.mts"], ""),
    ] {
        let sandbox = Sandbox::new();
        let all = |what: &str| files.iter().map(|file| format!("tests/{file} {what}\n")).collect::<String>();
        let missing = files
            .iter()
            .map(|file| format!("mcpreel: tests/{file} is missing; `mcpreel init {runner}` writes it\n"))
            .collect::<String>();
        assert_eq!(init(&sandbox, &format!("{runner} --check")), (5, missing));
        assert!(!sandbox.has("tests"), "--check writes nothing");
        assert_eq!(init(&sandbox, runner), (0, all("written") + more));
        assert_eq!(init(&sandbox, runner), (0, all("is up to date")));
        assert_eq!(init(&sandbox, &format!("{runner} --check")), (0, all("is up to date")));
        for file in files {
            let first = sandbox.read(&format!("tests/{file}")).lines().next().unwrap().to_owned();
            let wanted =
                format!("Written by mcpreel {}: `mcpreel init {runner}`.", env!("CARGO_PKG_VERSION"));
            assert!(first.contains(&wanted), "{first}");
        }
    }
}

#[test]
fn what_somebody_wrote_is_not_written_over_without_force() {
    let sandbox = Sandbox::new();
    init(&sandbox, "pytest");
    let ours = sandbox.read(PYTEST);
    let rows = [
        (ours.clone() + "# mine\n", "was written by mcpreel 0.1.0 and changed since"),
        ("# mine\n".to_owned(), "was not written by mcpreel"),
    ];
    for (text, why) in rows {
        sandbox.file(PYTEST, &text);
        let (code, said) = init(&sandbox, "pytest --check");
        assert_eq!((code, said.contains(why)), (5, true), "{said}");
        assert_eq!(
            init(&sandbox, "pytest"),
            (1, format!("mcpreel: {PYTEST} {why}; --force writes over it, --path chooses another folder\n"))
        );
        assert_eq!(sandbox.read(PYTEST), text);
        assert_eq!(init(&sandbox, "pytest --force"), (0, format!("{PYTEST} written\n")));
        assert_eq!(sandbox.read(PYTEST), ours);
    }
    // The files of one runner are written together or not at all.
    sandbox.file("tests/mcpreel_vitest.d.mts", "// mine\n");
    assert_eq!(init(&sandbox, "vitest").0, 1);
    assert!(!sandbox.has("tests/mcpreel_vitest.mjs"));
}

#[test]
fn the_folder_is_found_or_named() {
    let sandbox = Sandbox::new();
    sandbox.file("test/one.py", "");
    assert!(init(&sandbox, "pytest").1.starts_with("test/mcpreel_pytest.py written\n"));
    sandbox.file("tests/one.py", "");
    assert!(init(&sandbox, "pytest").1.starts_with("tests/mcpreel_pytest.py written\n"));
    assert!(init(&sandbox, "vitest --path a/b").1.starts_with("a/b/mcpreel_vitest.mjs written\n"));
    assert_eq!(
        init(&sandbox, "pytest --path tests/one.py"),
        (1, "mcpreel: cannot read tests/one.py/mcpreel_pytest.py: not a directory\n".to_owned())
    );
    assert_eq!(
        init(&sandbox, "nose"),
        (2, "mcpreel: runner \"nose\": expected pytest or vitest; see mcpreel init --help\n".to_owned())
    );
}

#[test]
fn pytest_is_told_of_the_file() {
    // The folder, what is there, what is said of its conftest.py, and what that holds afterwards.
    let rows = [
        ("tests", &[][..], "written", "pytest_plugins = [\"mcpreel_pytest\"]\n"),
        ("tests", &["__init__.py"][..], "written", "pytest_plugins = [\"tests.mcpreel_pytest\"]\n"),
        ("a/tests", &[][..], "written", "from mcpreel_pytest import *  # noqa: F403\n"),
        (
            "a/tests",
            &["__init__.py", "../__init__.py"],
            "written",
            "from a.tests.mcpreel_pytest import *  # noqa: F403\n",
        ),
        (
            "tests",
            &["conftest.py"],
            "now add to tests/conftest.py: pytest_plugins = [\"mcpreel_pytest\"]",
            "",
        ),
    ];
    for (folder, files, said, conftest) in rows {
        let sandbox = Sandbox::new();
        for file in files {
            sandbox.file(&format!("{folder}/{file}"), "");
        }
        let again = format!("pytest --path {folder}");
        let (code, told) = init(&sandbox, &again);
        assert!(code == 0 && told.contains(said), "{told}");
        assert_eq!(sandbox.read(&format!("{folder}/conftest.py")), conftest);
        // A file that names it already needs nothing.
        sandbox.file(&format!("{folder}/conftest.py"), "from mcpreel_pytest import *\n");
        assert_eq!(init(&sandbox, &again).1, format!("{folder}/mcpreel_pytest.py is up to date\n"));
    }
}
