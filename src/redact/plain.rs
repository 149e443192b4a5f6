//! Text that is no message: command lines, URLs, lines of logs. Values get the placeholder without a number, as such
//! text may stand in a cassette's head, which belongs to no process.

use std::borrow::Cow;

use super::document::Hit;
use super::look::{Look, Scope};
use super::nested::{in_fields, is_url, url_fields};
use super::placeholder::{PLAIN, ZERO, is_placeholder};
use super::redactor::replace_unnumbered;
use super::rules::Rules;

impl Rules {
    /// A command line with values replaced: the globs apply to `--k v`, `--k=v` and `K=V`, and inside an argument as
    /// in [`Rules::redact_url`] and [`Rules::redact_plain`].
    #[must_use]
    pub fn redact_command(&self, command: &[String]) -> Vec<String> {
        let command: Vec<String> = command.iter().map(|word| self.without_known(word).into_owned()).collect();
        let command = command.as_slice();
        let mut out: Vec<String> = Vec::with_capacity(command.len());
        let mut named: Option<&str> = None;
        for argument in command {
            let name = named.take();
            if let Some(rule) = name.filter(|_| !is_flag(argument)).and_then(|name| self.pair(name, argument))
            {
                out.push(self.argument_for(rule, argument).to_owned());
                continue;
            }
            let option = argument.trim_start_matches('-');
            if option.len() < argument.len() && is_name(option) {
                named = Some(option);
            }
            let pair = option.split_once('=').filter(|(name, _)| is_name(name));
            out.push(match pair {
                Some((name, value)) => {
                    let front = argument.get(..argument.len() - value.len()).unwrap_or("");
                    let value = match self.pair(name, value) {
                        Some(rule) => self.argument_for(rule, value).to_owned(),
                        None => self.redact_argument(value),
                    };
                    front.to_owned() + &value
                }
                None => self.redact_argument(argument),
            });
        }
        out
    }

    fn redact_argument(&self, argument: &str) -> String {
        if is_url(argument) { self.redact_url(argument) } else { self.redact_plain(argument).into_owned() }
    }

    /// A text without the known secrets, with placeholders that have no number; a JSON text stays one.
    #[must_use]
    pub fn without_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.known().replace(text, ZERO, &mut |_| PLAIN.to_owned()) {
            Some((text, _)) => Cow::Owned(text),
            None => Cow::Borrowed(text),
        }
    }

    fn argument_for<'a>(&'a self, rule: usize, value: &'a str) -> &'a str {
        if value.is_empty() || is_placeholder(value) { value } else { self.text(rule).unwrap_or(PLAIN) }
    }

    /// A URL with values of its query and fragment replaced by name, and its user information whatever it is.
    #[must_use]
    pub fn redact_url(&self, url: &str) -> String {
        if self.is_empty() {
            return url.to_owned();
        }
        let url = &*self.without_known(url);
        let look = Look::of(self);
        let mut found = in_fields(&look, url, &url_fields(url), 0, "");
        look.parts(url, None, 0, "", Scope::Routing, &mut found);
        let mut hits = found.hits;
        hits.retain(|hit| !hit.stays);
        let redacted = replace_unnumbered(self, url, &hits);
        let Some((scheme, rest)) = redacted.split_once("://") else { return redacted };
        let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        match rest.get(..authority).and_then(|authority| authority.rfind('@')) {
            Some(at) => format!("{scheme}://{PLAIN}{}", rest.get(at..).unwrap_or("")),
            None => redacted,
        }
    }

    /// Free text with values replaced: in JSON that stands in it, `K=V`, `--k v`, `k: "v"`, and lines that look like
    /// headers (`Authorization: ...`). Prose is left alone.
    #[must_use]
    pub fn redact_plain<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let text = self.without_known(text);
        let hits = self.find_plain(&text);
        if hits.is_empty() { text } else { Cow::Owned(replace_unnumbered(self, &text, &hits)) }
    }

    /// Every value in free text that has to be replaced, in order. The path of a hit is the name it stands under.
    #[must_use]
    pub fn find_plain(&self, text: &str) -> Vec<Hit> {
        Look::of(self).plain(text)
    }
}

/// Whether an argument cannot be the value of the option before it.
fn is_flag(argument: &str) -> bool {
    argument.starts_with("--") || (argument.starts_with('-') && argument.len() <= 2)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}
