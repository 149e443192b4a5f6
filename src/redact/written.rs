//! Which of the texts that look like placeholders in a message are some. Mostly all are. Where a message was redacted in
//! which the client had such text of its own, its record says which are not just text, and a replay takes the others as
//! they are: they would equal anything otherwise.

use std::collections::BTreeMap;

use super::rules::Rules;
use crate::jsonrpc::edit::Change;
use crate::jsonrpc::pretty;
use crate::jsonrpc::scan::{Members, Span, elements};
use crate::jsonrpc::tree::Tree;

/// What redaction wrote in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written<'a> {
    /// It is a live one: nothing. But its client may have been given placeholders, and have made names of members of
    /// them.
    Live,
    /// It was recorded as it was: nothing.
    Nothing,
    /// Everything that looks like a placeholder.
    All,
    /// What lies over one of these spans, which are in order, of a text in which the message begins at `base`.
    At {
        /// Where placeholders are.
        spans: &'a [Span],
        /// The first byte of the message.
        base: usize,
    },
}

impl Written<'_> {
    /// Whether redaction changed the message.
    #[must_use]
    pub fn is_redacted(self) -> bool {
        matches!(self, Self::All | Self::At { .. })
    }

    /// The same for the part of the message that begins at `start`.
    #[must_use]
    pub fn within(self, start: usize) -> Self {
        match self {
            Self::At { spans, base } => Self::At { spans, base: base + start },
            other => other,
        }
    }

    /// Whether what looks like a placeholder in the message is one.
    pub(super) fn covers(self, look_alike: Span) -> bool {
        match self {
            Self::Live | Self::Nothing => false,
            Self::All => true,
            Self::At { spans, base } => !over(spans, look_alike.shifted(base)).is_empty(),
        }
    }
}

/// Those of some spans, in order, that lie over another one.
fn over(spans: &[Span], span: Span) -> &[Span] {
    let from = spans.partition_point(|known| known.end <= span.start);
    let to = spans.partition_point(|known| known.start < span.end);
    spans.get(from..to).unwrap_or_default()
}

/// What redaction replaced in a text: each step in what came of the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps(Vec<Vec<Change>>);

impl Steps {
    pub(super) fn of(changes: Vec<Change>) -> Self {
        Self(vec![changes])
    }

    pub(super) fn put_first(&mut self, changes: Vec<Change>) {
        self.0.insert(0, changes);
    }

    /// Where, after all of it, something stands that was put there, or that stood at one of `spans` before.
    fn carry(&self, mut spans: Vec<Span>) -> Vec<Span> {
        for step in &self.0 {
            let mut moved: Vec<Span> = Vec::with_capacity(spans.len() + step.len());
            let mut changes = step.iter().peekable();
            let mut behind: Option<&Change> = None;
            for span in spans {
                while let Some(change) = changes.next_if(|change| change.old.end <= span.start) {
                    moved.push(change.new);
                    behind = Some(change);
                }
                let replaced = changes.peek().is_some_and(|change| change.old.start < span.end);
                if !replaced {
                    moved.push(behind.map_or(span, |last| span.rebased(last.old.end, last.new.end)));
                }
            }
            moved.extend(changes.map(|change| change.new));
            spans = moved;
        }
        spans.retain(|span| !span.is_empty());
        spans
    }
}

/// What the record of a redacted message has to say of placeholders in it, as [`super::Redactor::note`].
pub(super) fn note(rules: &Rules, text: &str, steps: &Steps, before: Written<'_>) -> Option<String> {
    let written = steps.carry(match before {
        Written::All => return None,
        Written::Live | Written::Nothing => Vec::new(),
        Written::At { spans, base } => {
            let mine = spans.iter().filter(|span| span.start >= base);
            mine.map(|span| span.rebased(base, 0)).collect()
        }
    });
    if !may_hold_others(rules, text, &written) {
        return None;
    }
    let look_alikes = rules.look_alikes(&Tree::of(text).ok()?);
    if look_alikes.iter().all(|look_alike| !over(&written, *look_alike).is_empty()) {
        return None;
    }
    let mut parts: Vec<Span> = Vec::new();
    for look_alike in look_alikes {
        // What somebody wrote beside a placeholder may look like more of it.
        parts.extend(
            over(&written, look_alike)
                .iter()
                .map(|span| Span::new(span.start.max(look_alike.start), span.end.min(look_alike.end))),
        );
    }
    let starts: Vec<usize> = parts.iter().map(|part| part.start).collect();
    let places = pretty::places_packed(text, Span::new(0, text.len()), &starts);
    let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (part, place) in parts.iter().zip(places) {
        by_text.entry(part.of(text)).or_default().push(place.to_string());
    }
    let members: Vec<String> =
        by_text.into_iter().map(|(part, places)| format!("\"{part}\":[{}]", places.join(","))).collect();
    Some(format!("{{{}}}", members.join(",")))
}

/// Whether there may be what looks like a placeholder elsewhere: at once where no escape could hide it.
fn may_hold_others(rules: &Rules, text: &str, written: &[Span]) -> bool {
    let Some(forms) = rules.forms() else { return false };
    let starts = written.iter().map(|span| span.start).chain([text.len()]);
    let mut between = std::iter::once(0).chain(written.iter().map(|span| span.end)).zip(starts);
    forms.may_be_hidden(text)
        || between.any(|(from, to)| text.get(from..to).is_some_and(|own| forms.may_be_in(own)))
}

/// Where placeholders stand in the message `text[whole]` by the note of its record, in order. `None` where the note is
/// none, or is about another message: then somebody has changed it.
#[must_use]
pub fn noted(note: &str, text: &str, whole: Span) -> Option<Vec<Span>> {
    let mut entries: Vec<(usize, &str)> = Vec::new();
    let mut members = Members::of(note, 0)?;
    while let Some((name, places)) = members.next().ok()? {
        let part = Span::new(name.start + 1, name.end.checked_sub(1)?).of(note);
        let places = Some(places).filter(|places| places.of(note).starts_with('['))?;
        for place in elements(note, places).ok()? {
            entries.push((place.of(note).parse().ok()?, part));
        }
    }
    entries.sort_unstable();
    let places: Vec<usize> = entries.iter().map(|(place, _)| *place).collect();
    let places = pretty::places_unpacked(text, whole, &places);
    let spans: Vec<Span> =
        places.iter().zip(&entries).map(|(at, (_, part))| Span::new(*at, at + part.len())).collect();
    let fits = |(span, (_, part)): (&Span, &(usize, &str))| {
        span.end <= whole.end && text.get(span.start..span.end) == Some(*part) && !part.is_empty()
    };
    (spans.len() == entries.len() && spans.iter().zip(&entries).all(fits)).then_some(spans)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Options, Redactor, Side};
    use super::*;

    fn redactor(own: &[&str], secrets: &[&str]) -> Redactor {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (own, secrets) = (owned(own), owned(secrets));
        let options = Options { defaults: true, own: &own, secrets: &secrets, ..Options::default() };
        Redactor::new(Arc::new(Rules::build(&options).unwrap()), 1)
    }

    /// The redacted arguments and the note of a request with these.
    fn recorded(redactor: &mut Redactor, arguments: &str) -> (String, Option<String>) {
        let redacted = redactor.redact(arguments, Side::Client).unwrap();
        let note = redactor.note(arguments, Some(&redacted), Written::Nothing);
        (redacted.text, note)
    }

    #[test]
    fn only_text_of_the_clients_own_makes_a_note() {
        for (arguments, expected, note) in [
            (r#"{"a":"2001","token":"x"}"#, r#"{"a":"2001","token":"REDACTED-1"}"#, None),
            (
                r#"{"a":"to a@b.cd","token":"x"}"#,
                r#"{"a":"to redacted-1@redacted.invalid","token":"REDACTED-2"}"#,
                None,
            ),
            (r#"{"a":"1800-01-01","token":"x"}"#, r#"{"a":"1800-01-01","token":"REDACTED-1"}"#, Some("{}")),
            (
                r#"{"a":"is 1800-01-01, to a@b.cd", "b":"a@b.cd"}"#,
                r#"{"a":"is 1800-01-01, to redacted-1@redacted.invalid", "b":"redacted-1@redacted.invalid"}"#,
                Some(r#"{"redacted-1@redacted.invalid":[24,58]}"#),
            ),
            // The very text that redaction writes.
            (
                r#"{"a":"redacted-1@redacted.invalid","b":"a@b.cd"}"#,
                r#"{"a":"redacted-1@redacted.invalid","b":"redacted-1@redacted.invalid"}"#,
                Some(r#"{"redacted-1@redacted.invalid":[40]}"#),
            ),
            // Escaped, in text that is JSON, and as a name.
            (
                r#"{"\u0031800-01-01":1,"a@b.cd":2}"#,
                r#"{"\u0031800-01-01":1,"redacted-1@redacted.invalid":2}"#,
                Some(r#"{"redacted-1@redacted.invalid":[22]}"#),
            ),
            (
                r#"{"a":"{\"at\":\"192.0.2.7\",\"token\":\"x\",\"to\":\"a@b.cd\"}"}"#,
                r#"{"a":"{\"at\":\"192.0.2.7\",\"token\":\"REDACTED-1\",\"to\":\"redacted-2@redacted.invalid\"}"}"#,
                Some(r#"{"redacted-2@redacted.invalid":[62]}"#),
            ),
            (
                r#"{"a":"https://h.io/?at=1800%2d01-01&token=x"}"#,
                r#"{"a":"https://h.io/?at=1800%2d01-01&token=REDACTED-1"}"#,
                Some("{}"),
            ),
            // Where a key says that it is secret, nothing tells it from what is.
            (
                r#"{"token":"REDACTED-7","b":"a@b.cd"}"#,
                r#"{"token":"REDACTED-7","b":"redacted-1@redacted.invalid"}"#,
                None,
            ),
        ] {
            let (text, told) = recorded(&mut redactor(&[], &[]), arguments);
            assert_eq!((text.as_str(), told.as_deref()), (expected, note), "{arguments}");
        }
    }

    #[test]
    fn fixed_texts_and_known_secrets_are_told_from_text_too() {
        let mut redactor = redactor(&["api_key=none"], &["FAKE-known-1"]);
        let (text, note) = recorded(
            &mut redactor,
            r#"{"q":"none of FAKE-known-1 at 1800-01-01 by a@b.cd","mode":"none","api_key":"k"}"#,
        );
        assert_eq!(
            text,
            r#"{"q":"none of REDACTED-1 at 1800-01-01 by redacted-2@redacted.invalid","mode":"none","api_key":"none"}"#
        );
        assert_eq!(note.as_deref(), Some(r#"{"REDACTED-1":[14],"redacted-2@redacted.invalid":[42]}"#));
        let (text, note) =
            recorded(&mut redactor, r#"{"api_key":"FAKE-echo-1234","a":"none FAKE-echo-1234"}"#);
        assert_eq!(text, r#"{"api_key":"none","a":"none none"}"#);
        assert_eq!(note.as_deref(), Some(r#"{"none":[28]}"#));
    }

    #[test]
    fn a_note_is_good_for_its_message_in_any_layout() {
        let text = "..{ \"a\" : \"1800-01-01\",\n \"b\" : \"REDACTED-1 \u{e9}\" }";
        let whole = Span::new(2, text.len());
        let at = text.find("RED").unwrap();
        for (note, expected) in [
            (r#"{"REDACTED-1":[23]}"#, Some(vec![Span::new(at, at + 10)])),
            ("{}", Some(vec![])),
            (r#"{"REDACTED-1":[22]}"#, None),
            (r#"{"REDACTED-1":[999]}"#, None),
            (r#"{"REDACTED-1":[-1]}"#, None),
            (r#"{"REDACTED-1":23}"#, None),
            (r#"{"":[23]}"#, None),
            ("[23]", None),
            ("7", None),
        ] {
            assert_eq!(noted(note, text, whole), expected, "{note}");
        }
    }

    #[test]
    fn what_was_written_before_is_carried_through_later_replacements() {
        let change = |old: (usize, usize), new: (usize, usize)| Change {
            old: Span::new(old.0, old.1),
            new: Span::new(new.0, new.1),
        };
        let spans = |list: &[(usize, usize)]| list.iter().map(|(a, b)| Span::new(*a, *b)).collect::<Vec<_>>();
        let mut steps = Steps::of(vec![change((4, 6), (4, 5)), change((20, 21), (19, 25))]);
        assert_eq!(steps.carry(spans(&[(0, 2), (5, 7), (8, 9)])), spans(&[(0, 2), (4, 5), (7, 8), (19, 25)]));
        steps.put_first(vec![change((3, 8), (3, 6)), change((9, 10), (7, 7))]);
        assert_eq!(
            steps.carry(spans(&[(0, 1), (2, 4), (12, 13)])),
            spans(&[(0, 1), (4, 5), (8, 9), (19, 25)])
        );
    }

    #[test]
    fn many_placeholders_take_no_quadratic_time() {
        let list = vec![r#""a@b.cd 192.0.2.1""#; 40_000].join(",");
        let (text, note) = recorded(&mut redactor(&[], &[]), &format!(r#"{{"a":[{list}]}}"#));
        let spans = noted(&note.unwrap(), &text, Span::new(0, text.len())).unwrap();
        assert_eq!(spans.len(), 40_000);
    }
}
