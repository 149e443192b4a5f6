//! The files that `mcpreel init` writes into a project's tests. They depend on nothing but the test runner, and drive
//! this program.
//!
//! The first line of each says which version wrote it and holds a checksum of the rest, so that a file of an older
//! version is told from one that somebody changed.

use crate::cassette::owner::system::hash;

/// This program's version, as it stands in the files.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One file to be written.
#[derive(Clone, Copy, Debug)]
pub struct Helper {
    /// Its name, without a folder.
    pub file: &'static str,
    /// What begins a comment.
    comment: &'static str,
    /// What it is written by: `mcpreel init pytest`.
    command: &'static str,
    /// All but the first line.
    body: &'static str,
}

/// For pytest.
pub const PYTEST: [Helper; 1] = [Helper {
    file: "mcpreel_pytest.py",
    comment: "#",
    command: "mcpreel init pytest",
    // One file for its user, three of a bearable length for us.
    body: concat!(
        include_str!("pytest/1_faults.py"),
        include_str!("pytest/2_cassette.py"),
        include_str!("pytest/3_plugin.py"),
    ),
}];

/// For vitest, and for whatever else runs tests in Node.
pub const VITEST: [Helper; 2] = [
    Helper {
        file: "mcpreel_vitest.mjs",
        comment: "//",
        command: "mcpreel init vitest",
        body: include_str!("mcpreel_vitest.mjs"),
    },
    Helper {
        file: "mcpreel_vitest.d.mts",
        comment: "//",
        command: "mcpreel init vitest",
        body: include_str!("mcpreel_vitest.d.mts"),
    },
];

/// How a file in a project stands to the one that would be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They are the same.
    Current,
    /// It is as this other version wrote it.
    OtherVersion(String),
    /// It was written by this version, and changed since.
    Changed(String),
    /// It is none of ours.
    Foreign,
}

impl Helper {
    /// The whole file.
    #[must_use]
    pub fn text(&self) -> String {
        self.text_of(VERSION, self.body)
    }

    fn text_of(&self, version: &str, body: &str) -> String {
        let Self { comment, command, .. } = self;
        format!("{comment} Written by mcpreel {version}: `{command}`. Checksum {}.\n{body}", checksum(body))
    }

    /// Looks at the text of a file in a project.
    #[must_use]
    pub fn standing(&self, found: &str) -> Standing {
        // Git may have changed the ends of lines.
        let found = found.replace("\r\n", "\n");
        if found == self.text() {
            return Standing::Current;
        }
        let Some((first, body)) = found.split_once('\n') else { return Standing::Foreign };
        let version = first
            .strip_prefix(self.comment)
            .and_then(|rest| rest.strip_prefix(" Written by mcpreel "))
            .and_then(|rest| rest.split_once(':'));
        match version {
            Some((version, _)) if self.text_of(version, body) == found => {
                Standing::OtherVersion(version.to_owned())
            }
            Some((version, _)) => Standing::Changed(version.to_owned()),
            None => Standing::Foreign,
        }
    }
}

fn checksum(body: &str) -> String {
    format!("{:016x}", hash(body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_its_version_and_whether_it_was_changed() {
        for helper in PYTEST.iter().chain(&VITEST) {
            let text = helper.text();
            let other = helper.text_of("0.0.9", "old body\n");
            let changed = |version: &str| Standing::Changed(version.to_owned());
            let rows = [
                (text.clone(), Standing::Current),
                (text.replace('\n', "\r\n"), Standing::Current),
                (format!("{text}\n"), changed(VERSION)),
                (text.replacen("Checksum ", "Checksum 0", 1), changed(VERSION)),
                (other.clone(), Standing::OtherVersion("0.0.9".to_owned())),
                (other.replace('\n', "\r\n"), Standing::OtherVersion("0.0.9".to_owned())),
                (other.replace("old", "my"), changed("0.0.9")),
                (helper.body.to_owned(), Standing::Foreign),
                (String::new(), Standing::Foreign),
                ("one line".to_owned(), Standing::Foreign),
            ];
            for (at, (found, standing)) in rows.into_iter().enumerate() {
                assert_eq!(helper.standing(&found), standing, "{}, row {at}", helper.file);
            }
        }
    }

    #[test]
    fn the_first_line_says_who_wrote_it() {
        let first: Vec<String> =
            PYTEST.iter().chain(&VITEST).map(|helper| helper.text().lines().next().unwrap().into()).collect();
        assert!(first[0].starts_with("# Written by mcpreel 0."), "{}", first[0]);
        assert!(first[1].contains(": `mcpreel init vitest`. Checksum "), "{}", first[1]);
    }
}
