//! The options about redaction: what was typed becomes rules, packs are found, and known secrets are read from where
//! nobody sees them (the environment and files, never the command line). Known secrets are kept out of all that this
//! process says, too.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use super::say;
use crate::door;
use crate::error::{Error, Result};
use crate::redact::{self, Manifest, Rules, SHORTEST, TextPack};

/// Where the salt is looked for when `--redact-salt-env` does not say.
pub const SALT: &str = "MCPREEL_REDACT_SALT";

/// Packs beside a cassette are small; other TOML files may be anything.
const LARGEST_PACK: u64 = 1 << 20;

/// The options as they were typed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redaction<'a> {
    /// `--redact`
    pub own: &'a [String],
    /// `--no-default-redactions`
    pub no_defaults: bool,
    /// `--pii-pack`
    pub packs: &'a [String],
    /// `--secret-env` and `--secret-file`
    pub secrets: Secrets<'a>,
    /// `--redact-profile`
    pub profile: Option<&'a str>,
    /// `--redact-salt-env`
    pub salt_env: Option<&'a str>,
}

/// Where known secrets are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Secrets<'a> {
    /// `--secret-env`
    pub env: &'a [String],
    /// `--secret-file`
    pub files: &'a [String],
    /// `--header`: servers repeat credentials in their errors.
    pub header: &'a [String],
    /// `--header-env`
    pub header_env: &'a [String],
    /// Themselves, each long enough.
    pub values: &'a [String],
}

/// Shorter values that nobody called secrets may well be words.
pub const SHORTEST_FOUND: usize = 8;

/// Whether a header field is one for credentials, by its name.
pub fn is_credential(field: &str) -> bool {
    let field = field.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "password", "credential", "cookie"]
        .iter()
        .any(|word| field.contains(word))
}

/// What is secret of the value of such a field: all of it, and what stands behind a scheme.
pub fn secrets_in(value: &str) -> Vec<String> {
    let whole = value.trim();
    let behind = whole.split_once(' ').map(|(_, behind)| behind.trim());
    let long = |value: &&str| value.chars().count() >= SHORTEST_FOUND;
    [Some(whole), behind].into_iter().flatten().filter(long).map(str::to_owned).collect()
}

impl Redaction<'_> {
    /// The rules that these options ask for.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] and [`Error::Input`] for an option or a file that cannot be used, and for a secret or a salt
    /// that is not there.
    pub fn rules(&self) -> Result<Rules> {
        self.rules_besides(&Manifest::default(), &[])
    }

    /// The same, with the rules of a cassette's manifest; `packs` are those that it names.
    ///
    /// # Errors
    ///
    /// As [`Redaction::rules`].
    pub fn rules_besides(&self, manifest: &Manifest, packs: &[TextPack]) -> Result<Rules> {
        let mut own = self.own.to_vec();
        own.extend(manifest.own());
        let mut all = read_packs(self.packs)?;
        all.extend(packs.iter().cloned());
        let secrets = self.secrets.read(true)?;
        let salt = self.salt()?;
        Rules::build(&redact::Options {
            defaults: !self.no_defaults,
            own: &own,
            packs: &all,
            salt: salt.as_deref(),
            profile: self.profile,
            ..redact::Options::default()
        })
        .map(|rules| rules.with_secrets_of(&secrets))
    }

    /// Warns when the defaults are off.
    pub fn warn(&self) {
        if self.no_defaults {
            say(
                "warning: default redactions are off: passwords, tokens, keys and personal data are recorded as they come",
            );
        }
    }

    fn salt(&self) -> Result<Option<Vec<u8>>> {
        let salt = door::variable(self.salt_env.unwrap_or(SALT));
        match (salt, self.salt_env) {
            (Some(salt), _) => Ok(Some(salt.into_encoded_bytes())),
            (None, Some(name)) => Err(Error::Usage(format!("--redact-salt-env: {name} is not set"))),
            (None, None) => Ok(None),
        }
    }
}

impl Secrets<'_> {
    /// Whether none is named.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.env.is_empty() && self.files.is_empty() && self.values.is_empty()
    }

    /// Rules that find the values and nothing else. From now on they are kept out of what is said. In a replay a variable may be unset: whoever has no
    /// key has nothing to hide.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for a variable that is not set or too short, [`Error::Input`] with the line for a value in a
    /// file that is too short, [`Error::Io`] for a file that cannot be read.
    pub fn read(&self, required: bool) -> Result<Arc<Rules>> {
        let mut values = self.values.to_vec();
        for name in self.env {
            match door::variable(name).map(std::ffi::OsString::into_string) {
                // A shell reads a file with its line end.
                Some(Ok(value)) if is_long_enough(bare(&value)) => values.push(bare(&value).to_owned()),
                Some(Ok(_)) => return Err(Error::Usage(format!("--secret-env {name}: {}", too_short()))),
                Some(Err(_)) => return Err(Error::Usage(format!("--secret-env {name}: is not UTF-8"))),
                None if required => {
                    let what = "is not set; a secret that is not known cannot be looked for";
                    return Err(Error::Usage(format!("--secret-env {name}: {what}")));
                }
                None => {}
            }
        }
        let typed = self.header.iter().filter_map(|field| field.split_once(':'));
        let typed = typed.map(|(name, value)| (name, Some(value.to_owned())));
        let of_variables = self.header_env.iter().filter_map(|field| {
            let (name, variable) = field.split_once('=')?;
            Some((name, door::variable(variable.trim()).and_then(|value| value.into_string().ok())))
        });
        for (_, value) in typed.chain(of_variables).filter(|(name, _)| is_credential(name)) {
            values.extend(secrets_in(&value.unwrap_or_default()));
        }
        for file in self.files {
            let path = Path::new(file);
            let text = std::fs::read_to_string(path).map_err(Error::io("read the secrets in", path))?;
            let before = values.len();
            for (line, number) in text.split('\n').zip(1..) {
                // Some systems end lines with this alone.
                for value in line.split('\r').map(bare) {
                    match value {
                        "" => {}
                        value if is_long_enough(value) => values.push(value.to_owned()),
                        _ => return Err(Error::input(path, format!("line {number}"), too_short())),
                    }
                }
            }
            if required && values.len() == before {
                return Err(Error::input(path, "", "holds no secret; expected one a line"));
            }
        }
        values.sort();
        values.dedup();
        hide(values)
    }
}

/// A value without what stands around it: a byte order mark, blanks, line ends. What has them is found without them.
fn bare(value: &str) -> &str {
    value.trim_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}')
}

fn is_long_enough(value: &str) -> bool {
    value.chars().count() >= SHORTEST
}

fn too_short() -> String {
    format!("a secret of fewer than {SHORTEST} characters cannot be told from other text")
}

/// Reads the packs that were given.
///
/// # Errors
///
/// [`Error::Io`] for a file that cannot be read, those of [`TextPack::parse`].
pub fn read_packs(files: &[String]) -> Result<Vec<TextPack>> {
    let read = |file: &String| {
        let path = Path::new(file);
        let text = std::fs::read_to_string(path).map_err(Error::io("read the redaction pack", path))?;
        TextPack::parse(path, &text)
    };
    files.iter().map(read).collect()
}

/// The manifest of a cassette.
///
/// # Errors
///
/// [`Error::Input`] where it is none.
pub fn manifest_of(path: &Path, text: Option<&str>) -> Result<Manifest> {
    text.map_or_else(
        || Ok(Manifest::default()),
        |text| {
            serde_json::from_str(text)
                .map_err(|error| Error::input(path, "/redaction", format!("cannot be read: {error}")))
        },
    )
}

/// The packs that a cassette may mean: those given, and those in files beside it.
///
/// # Errors
///
/// Those of [`read_packs`]. What lies beside a cassette and is no pack is none.
pub fn packs_for(cassette: &Path, manifest: &Manifest, given: &[String]) -> Result<Vec<TextPack>> {
    let mut packs = read_packs(given)?;
    packs.extend(manifest.packs.iter().filter_map(TextPack::bundled));
    let missing =
        |packs: &[TextPack], wanted: &redact::Pack| !packs.iter().any(|pack| pack.sha256 == wanted.sha256);
    if !manifest.packs.iter().any(|wanted| missing(&packs, wanted)) {
        return Ok(packs);
    }
    let folder = cassette.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut files: Vec<_> = std::fs::read_dir(folder.unwrap_or(Path::new(".")))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .filter(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST_PACK))
        .collect();
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Ok(pack) = TextPack::parse_unchecked(&path, &text)
            && manifest.packs.iter().any(|wanted| wanted.sha256 == pack.sha256)
        {
            packs.push(pack);
        }
    }
    Ok(packs)
}

/// Those of `packs` that a manifest names, other than the bundled one.
///
/// # Errors
///
/// [`Error::Input`] for a pack that is not there: with its digest.
pub fn named_packs(cassette: &Path, manifest: &Manifest, packs: &[TextPack]) -> Result<Vec<TextPack>> {
    let bundled = TextPack::common()?.id;
    let others = manifest.packs.iter().filter(|pack| pack.id != bundled).cloned().collect();
    // Where the rules of all of them can be made, they are all there.
    Rules::from_manifest(&Manifest { packs: others, ..Manifest::default() }, packs)
        .map_err(|error| Error::input(cassette, "/redaction/packs", error.to_string()))?;
    let is_named = |pack: &&TextPack| {
        pack.id != bundled && manifest.packs.iter().any(|wanted| wanted.sha256 == pack.sha256)
    };
    Ok(packs.iter().filter(is_named).cloned().collect())
}

/// What must not be said: the secrets that were read, each set once.
static HIDDEN: RwLock<Vec<(Vec<String>, Arc<Rules>)>> = RwLock::new(Vec::new());

/// The rules that find these secrets, made once: that takes a while where there are many.
fn hide(secrets: Vec<String>) -> Result<Arc<Rules>> {
    let mut hidden = HIDDEN.write().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, rules)) = hidden.iter().find(|(known, _)| *known == secrets) {
        return Ok(Arc::clone(rules));
    }
    let options = redact::Options { secrets: &secrets, ..redact::Options::default() };
    let rules = Arc::new(Rules::build(&options)?);
    if !secrets.is_empty() {
        hidden.push((secrets, Arc::clone(&rules)));
    }
    Ok(rules)
}

/// A text as it may be said: without known secrets. A JSON text stays one.
#[must_use]
pub fn sayable(text: &str) -> Cow<'_, str> {
    let hidden = HIDDEN.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = Cow::Borrowed(text);
    for (_, rules) in hidden.iter() {
        text = Cow::Owned(rules.without_known(&text).into_owned());
    }
    text
}
