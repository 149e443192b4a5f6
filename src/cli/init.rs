//! `init`: a helper file for the tests of a project.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use argh::{ArgsInfo, FromArgs};

use super::{print, say};
use crate::cassette::merge::replace;
use crate::error::{Error, Result};
use crate::exit;
use crate::helpers::{Helper, PYTEST, Standing, VERSION, VITEST};

/// Write a helper file into the tests of a project, or see whether the one that is there is up to date.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "init",
    example = "{command_name} pytest",
    example = "{command_name} vitest --path test",
    example = "{command_name} pytest --check",
    error_code(1, "a file cannot be written, or was changed by hand and --force was not given"),
    error_code(5, "--check: a file is missing, was changed, or was written by another version")
)]
pub struct Init {
    /// pytest, or vitest, which is for node:test and jest too
    #[argh(positional, arg_name = "runner")]
    pub runner: Runner,
    /// the folder of the tests (default: tests, or test if only that is there)
    #[argh(option, arg_name = "folder")]
    pub path: Option<String>,
    /// write over a file that was changed by hand
    #[argh(switch)]
    pub force: bool,
    /// write nothing; say whether the files are what this version writes
    #[argh(switch)]
    pub check: bool,
}

/// What runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// Python.
    Pytest,
    /// Node.
    Vitest,
}

impl FromStr for Runner {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "pytest" => Ok(Self::Pytest),
            "vitest" => Ok(Self::Vitest),
            _ => Err("expected pytest or vitest".to_owned()),
        }
    }
}

/// Runs the command.
pub fn run(init: &Init) -> Result<u8> {
    let folder = folder(init.path.as_deref());
    let helpers: &[Helper] = match init.runner {
        Runner::Pytest => &PYTEST,
        Runner::Vitest => &VITEST,
    };
    let found: Vec<(&Helper, PathBuf, Option<Standing>)> = helpers
        .iter()
        .map(|helper| {
            let path = folder.join(helper.file);
            let standing = standing(helper, &path)?;
            Ok((helper, path, standing))
        })
        .collect::<Result<_>>()?;
    if init.check {
        return check(&found, init.runner);
    }
    // All or none: the files of one runner belong together.
    for (_, path, standing) in &found {
        let what = match standing {
            Some(Standing::Changed(version)) => {
                format!("was written by mcpreel {version} and changed since")
            }
            Some(Standing::Foreign) => "was not written by mcpreel".to_owned(),
            _ => continue,
        };
        if !init.force {
            return Err(Error::Failed(format!(
                "{} {what}; --force writes over it, --path chooses another folder",
                path.display()
            )));
        }
    }
    fs::create_dir_all(&folder).map_err(Error::io("make the folder", &folder))?;
    for (helper, path, standing) in &found {
        if *standing == Some(Standing::Current) {
            print(&format!("{} is up to date\n", path.display()))?;
            continue;
        }
        // Tests may be running: they find the old file or the new one.
        replace(path, helper.text().as_bytes())?;
        print(&match standing {
            Some(Standing::OtherVersion(version)) => {
                format!("{}: from {version} to {VERSION}\n", path.display())
            }
            _ => format!("{} written\n", path.display()),
        })?;
    }
    match init.runner {
        Runner::Pytest => tell_pytest(&folder),
        Runner::Vitest => Ok(exit::OK),
    }
}

/// Where the tests are.
fn folder(given: Option<&str>) -> PathBuf {
    let there = |name: &&str| Path::new(name).is_dir();
    PathBuf::from(given.unwrap_or_else(|| ["tests", "test"].into_iter().find(there).unwrap_or("tests")))
}

/// How the file in the project stands; `None` when there is none.
fn standing(helper: &Helper, path: &Path) -> Result<Option<Standing>> {
    match fs::read(path) {
        Ok(bytes) => {
            Ok(Some(String::from_utf8(bytes).map_or(Standing::Foreign, |text| helper.standing(&text))))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

fn check(found: &[(&Helper, PathBuf, Option<Standing>)], runner: Runner) -> Result<u8> {
    let again = match runner {
        Runner::Pytest => "`mcpreel init pytest`",
        Runner::Vitest => "`mcpreel init vitest`",
    };
    let mut code = exit::OK;
    for (_, path, standing) in found {
        let path = path.display();
        let line = match standing {
            Some(Standing::Current) => {
                print(&format!("{path} is up to date\n"))?;
                continue;
            }
            None => format!("{path} is missing; {again} writes it"),
            Some(Standing::OtherVersion(version)) => {
                format!("{path} was written by mcpreel {version}, this is {VERSION}; {again} writes it anew")
            }
            Some(Standing::Changed(version)) => {
                format!(
                    "{path} was written by mcpreel {version} and changed since; {again} --force undoes that"
                )
            }
            Some(Standing::Foreign) => {
                format!("{path} was not written by mcpreel; {again} --force writes over it")
            }
        };
        say(&line);
        code = exit::DIFFERENT;
    }
    Ok(code)
}

/// pytest has to be told of the file: in a `conftest.py`, which is written only where there is none.
fn tell_pytest(folder: &Path) -> Result<u8> {
    let conftest = folder.join("conftest.py");
    let module = module(folder);
    // pytest takes plugins from a conftest.py that it reads before it looks for tests, and from no other.
    let line = if folder.components().count() == 1 {
        format!("pytest_plugins = [\"{module}\"]")
    } else {
        format!("from {module} import *  # noqa: F403")
    };
    match fs::read_to_string(&conftest) {
        Ok(text) if text.contains("mcpreel_pytest") => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::write(&conftest, format!("{line}\n")).map_err(Error::io("write", &conftest))?;
            print(&format!("{} written\n", conftest.display()))?;
        }
        _ => print(&format!("now add to {}: {line}\n", conftest.display()))?,
    }
    Ok(exit::OK)
}

/// The name by which the file can be imported: with the packages that it is in.
fn module(folder: &Path) -> String {
    let mut name = "mcpreel_pytest".to_owned();
    let absolute = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    for folder in absolute.ancestors().take_while(|folder| folder.join("__init__.py").exists()) {
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        name = format!("{package}.{name}");
    }
    name
}
