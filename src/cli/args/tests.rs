use super::*;

/// Plays back.
#[derive(ArgsInfo, FromArgs, Debug, PartialEq)]
#[argh(subcommand, name = "serve", example = "{command_name} c.cassette.json")]
struct Serve {
    /// the cassette
    #[argh(positional)]
    cassette: String,
    /// where to listen
    #[argh(option)]
    listen: Option<std::net::SocketAddr>,
    /// ignored pointers
    #[argh(option)]
    ignore: Vec<String>,
}

/// Records a server. More words.
#[derive(ArgsInfo, FromArgs, Debug, PartialEq)]
#[argh(subcommand, name = "record")]
struct Record {
    /// the cassette
    #[argh(option)]
    cassette: String,
    /// a URL
    #[argh(option)]
    url: Option<String>,
    /// say less
    #[argh(switch, short = 'q')]
    quiet: bool,
    /// say more
    #[argh(switch, short = 'v')]
    verbose: bool,
    /// other file
    #[argh(option, short = 'o')]
    output: Option<String>,
}

/// Looks for smells.
#[derive(ArgsInfo, FromArgs, Debug, PartialEq)]
#[argh(subcommand, name = "lint")]
struct Lint {
    /// the cassettes
    #[argh(positional)]
    files: Vec<String>,
}

/// The demo server.
#[derive(ArgsInfo, FromArgs, Debug, PartialEq)]
#[argh(subcommand, name = "server")]
struct DemoServer {}

#[derive(ArgsInfo, FromArgs, Debug, PartialEq)]
#[argh(subcommand)]
enum DemoWhat {
    Server(DemoServer),
}

/// Shows it all.
#[derive(ArgsInfo, FromArgs, Debug, PartialEq)]
#[argh(subcommand, name = "demo")]
struct Demo {
    /// over HTTP
    #[argh(switch)]
    http: bool,
    #[argh(subcommand)]
    what: Option<DemoWhat>,
}

#[derive(ArgsInfo, FromArgs, Debug, PartialEq)]
#[argh(subcommand)]
enum Command {
    Serve(Serve),
    Record(Record),
    Lint(Lint),
    Demo(Demo),
}

/// Records and replays.
#[derive(ArgsInfo, FromArgs, Debug, PartialEq)]
struct Top {
    #[argh(subcommand)]
    command: Command,
}

const PROGRAM: Program<'_> = Program {
    name: "mcpreel",
    version: "1.2.3",
    wrapping: &["record", "serve"],
    settings: |_| Ok(Settings::default()),
};

fn os(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn cut(line: &str) -> Result<Split, Stop> {
    let words: Vec<&str> = line.split_whitespace().collect();
    split(&PROGRAM, &Top::get_args_info(), os(&words))
}

fn printed(line: &str) -> (String, u8) {
    let words: Vec<&str> = line.split_whitespace().collect();
    match parse::<Top>(&PROGRAM, os(&words)) {
        Parsed::Print { text, code } => (text, code),
        Parsed::Run(top, command, _) => panic!("{line}: {top:?} {command:?}"),
    }
}

#[test]
fn every_spelling_of_an_option() {
    for (line, front) in [
        ("serve f --listen=1:2", "serve --listen 1:2 -- f"),
        ("serve --listen 1:2 f", "serve --listen 1:2 -- f"),
        ("serve --ignore /a --ignore=/b=c f", "serve --ignore /a --ignore /b=c -- f"),
        ("serve --ignore= f", "serve --ignore  -- f"),
        ("serve --ignore - -", "serve --ignore - -- -"),
        ("serve --ignore -5 f", "serve --ignore -5 -- f"),
        ("record --cassette c -qv -oout", "record --cassette c --quiet --verbose --output out"),
        ("record --cassette c -qvo out", "record --cassette c --quiet --verbose --output out"),
        ("record --cassette c -o=out", "record --cassette c --output out"),
        ("record -q -q --cassette c", "record --quiet --quiet --cassette c"),
        ("lint a -- --listen -x", "lint -- a --listen -x"),
        ("lint ./help help", "lint -- ./help help"),
        ("lint", "lint"),
        ("demo --http", "demo --http"),
        ("demo --http server", "demo --http server"),
    ] {
        assert_eq!(cut(line).map(|split| split.front.join(" ")).as_deref(), Ok(front), "{line}");
    }
}

#[test]
fn the_wrapped_command_is_found() {
    for (line, command) in [
        ("record --cassette c -- npx -y srv --cassette x", Some("npx -y srv --cassette x")),
        ("record --cassette c npx -y srv --url u", Some("npx -y srv --url u")),
        ("record --cassette c npx srv -- --flag", Some("npx srv -- --flag")),
        ("record --cassette c -- npx -- --help", Some("npx -- --help")),
        ("record --cassette c -- -- npx", Some("npx")),
        ("record --cassette c", None),
        ("record --cassette c -- help", Some("help")),
        ("serve f srv --listen 1", Some("srv --listen 1")),
        ("serve --ignore x f -- srv", Some("srv")),
        ("serve f", None),
    ] {
        let split = cut(line).unwrap_or_else(|stop| panic!("{line}: {stop:?}"));
        assert_eq!(split.command, command.map(|text| os(&text.split(' ').collect::<Vec<_>>())), "{line}");
    }
}

#[test]
fn what_makes_no_sense_is_one_line_and_exit_2() {
    for (line, text) in [
        ("recrod", r#"there is no command "recrod" (did you mean record?); see mcpreel --help"#),
        ("f.json", r#"there is no command "f.json"; see mcpreel --help"#),
        ("--bogus", r#"there is no option "--bogus"; see mcpreel --help"#),
        ("help recor", r#"there is no command "recor" (did you mean record?); see mcpreel --help"#),
        (
            "record --casette c",
            r#"record has no option "--casette" (did you mean --cassette?); see mcpreel record --help"#,
        ),
        (
            "record --casette=c",
            r#"record has no option "--casette" (did you mean --cassette?); see mcpreel record --help"#,
        ),
        ("record --cassette c -x srv", r#"record has no option "-x"; see mcpreel record --help"#),
        ("record --cassette", "--cassette needs a value; see mcpreel record --help"),
        ("record --cassette -- x", "--cassette needs a value; see mcpreel record --help"),
        (
            "record --cassette --url x",
            "--cassette needs a value before --url (a value that starts with a dash goes behind an equals sign: --cassette=...); see mcpreel record --help",
        ),
        ("record --cassette a --cassette b", "--cassette is given twice; see mcpreel record --help"),
        ("record --quiet=1", "--quiet takes no value; see mcpreel record --help"),
        ("record", "record needs --cassette; see mcpreel record --help"),
        (
            "record srv --cassette c",
            "record needs --cassette (options go before the command to run); see mcpreel record --help",
        ),
        (
            "record oops --cassette c -- srv",
            r#""oops" stands before --, and it is unclear whether it is the command to run; see mcpreel record --help"#,
        ),
        ("record --cassette c --", "there is no command behind --; see mcpreel record --help"),
        ("serve", "serve needs <cassette>; see mcpreel serve --help"),
        ("serve f --listen x", r#"--listen "x": invalid socket address syntax; see mcpreel serve --help"#),
        ("demo serv", r#"demo has no command "serv" (did you mean server?); see mcpreel demo --help"#),
        ("demo server x", r#"demo server takes no argument "x"; see mcpreel demo server --help"#),
    ] {
        assert_eq!(printed(line), (format!("mcpreel: {text}\n"), 2), "{line}");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for line in ["-h", "--help", "help", "help -v"] {
        let (text, code) = printed(line);
        assert!(code == 0 && text.starts_with("Usage: mcpreel <command>"), "{line}: {text}");
    }
    for line in [
        "help record",
        "record -h",
        "record --help",
        "record help",
        "record --cassette c -qh",
        "record --help -- x",
    ] {
        let (text, code) = printed(line);
        assert!(code == 0 && text.starts_with("Usage: mcpreel record --cassette"), "{line}: {text}");
        assert!(text.lines().next().unwrap().ends_with(" [-- <command...>]"), "{text}");
    }
    assert!(printed("serve f --help").0.contains("mcpreel serve c.cassette.json"));
    assert!(printed("help demo server").0.starts_with("Usage: mcpreel demo server"));
    for line in ["-V", "--version", "record -V"] {
        assert_eq!(printed(line), ("mcpreel 1.2.3\n".to_owned(), 0), "{line}");
    }
    let (text, code) = printed("");
    assert_eq!(code, 2);
    assert!(
        text.starts_with(
            "Records and replays.\n\nCommands:\n  serve   Plays back\n  record  Records a server\n"
        ),
        "{text}"
    );
}

#[test]
fn the_struct_is_filled() {
    let Parsed::Run(top, command, _) =
        parse::<Top>(&PROGRAM, os(&["record", "--cassette=c d", "-q", "--", "x", ""]))
    else {
        panic!()
    };
    let Command::Record(record) = top.command else { panic!() };
    assert_eq!((record.cassette.as_str(), record.quiet), ("c d", true));
    assert_eq!(command, Some(os(&["x", ""])));
    let Parsed::Run(top, _, _) = parse::<Top>(&PROGRAM, os(&["lint", "-", "help", "--", "--help"])) else {
        panic!()
    };
    assert_eq!(
        top.command,
        Command::Lint(Lint { files: vec!["-".to_owned(), "help".to_owned(), "--help".to_owned()] })
    );
}

#[cfg(unix)]
#[test]
fn bytes_pass_in_the_command_and_nowhere_else() {
    use std::os::unix::ffi::OsStringExt;
    let odd = OsString::from_vec(vec![b'x', 0xff]);
    let info = Top::get_args_info();
    for front in [&["record", "--cassette", "c", "--"][..], &["record", "--cassette", "c"]] {
        let mut raw = os(front);
        raw.extend([odd.clone(), odd.clone()]);
        assert_eq!(split(&PROGRAM, &info, raw).unwrap().command, Some(vec![odd.clone(), odd.clone()]));
    }
    for front in [&["lint"][..], &["lint", "--"], &["record", "--cassette"], &[]] {
        let mut raw = os(front);
        raw.push(odd.clone());
        let Err(Stop::Usage(what, _)) = split(&PROGRAM, &info, raw) else { panic!("{front:?}") };
        assert_eq!(what, "the argument \"x\u{fffd}\" is not UTF-8");
    }
}
