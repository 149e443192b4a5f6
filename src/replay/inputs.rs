//! What a client answers to a server's questions, and when one such answer stands for another (`--match-inputs`).

use std::str::FromStr;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::key::Rules;
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::string;
use crate::jsonrpc::tree::Tree;
use crate::redact::{Treatments, Written};

/// How the answers that a client gives to a server's questions are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputPolicy {
    /// An elicitation's action, and its content when accepted; sampling and roots only by their presence.
    #[default]
    Action,
    /// Equal in every value.
    Exact,
    /// Only which questions were answered.
    Keys,
}

impl FromStr for InputPolicy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "action" => Ok(Self::Action),
            "exact" => Ok(Self::Exact),
            "keys" => Ok(Self::Keys),
            _ => Err(format!("{word:?} is not one of action, exact, keys")),
        }
    }
}

impl InputPolicy {
    /// This policy and the stricter ones, strictest first: the best of several candidates is the one that the
    /// strictest of them takes.
    #[must_use]
    pub fn best_first(self) -> &'static [Self] {
        match self {
            Self::Exact => &[Self::Exact],
            Self::Action => &[Self::Exact, Self::Action],
            Self::Keys => &[Self::Exact, Self::Action, Self::Keys],
        }
    }
}

/// The answers in one message: those of a modern retry (`inputResponses`), or the result of a legacy reply.
#[derive(Debug)]
pub struct Inputs<'a> {
    tree: Tree<'a>,
    treatments: Treatments,
    written: Written<'a>,
    /// By the server's key for each question; a reply has one, without a key.
    answers: Vec<(String, usize)>,
}

impl<'a> Inputs<'a> {
    /// The answers in a request in which redaction wrote this; `None` when it carries none.
    #[must_use]
    pub fn of_request(message: &'a str, rules: &Rules, written: Written<'a>) -> Option<Self> {
        static NAME: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"inputResponses"));
        NAME.find(message.as_bytes())?;
        let tree = Tree::of(message).ok()?;
        let holder = tree.path(&["params", "inputResponses"])?;
        let name = |child: usize| {
            let name = tree.node(child).and_then(|node| node.name);
            string::decode(name.map_or("\"\"", |name| name.of(tree.text))).into_owned()
        };
        let answers = tree.children(holder).map(|child| (name(child), child)).collect();
        Some(Self { treatments: rules.treatments(&tree, written), tree, written, answers })
    }

    /// The answer that a reply is; `None` for an error.
    #[must_use]
    pub fn of_reply(message: &'a str, rules: &Rules, written: Written<'a>) -> Option<Self> {
        let tree = Tree::of(message).ok()?;
        let answers = vec![(String::new(), tree.member(0, "result")?)];
        Some(Self { treatments: rules.treatments(&tree, written), tree, written, answers })
    }

    /// Whether a question was answered.
    #[must_use]
    pub fn answers(&self, question: &str) -> bool {
        self.node(question).is_some()
    }

    fn node(&self, question: &str) -> Option<usize> {
        self.answers.iter().find(|(name, _)| name == question).map(|(_, node)| *node)
    }

    /// Whether these answers stand for the recorded ones. More than was recorded is ignored (2026-07-28, "Multi
    /// round-trip requests").
    #[must_use]
    pub fn stand_for(&self, recorded: &Inputs<'_>, policy: InputPolicy, rules: &Rules) -> bool {
        recorded.answers.iter().all(|(name, old)| {
            self.node(name).is_some_and(|new| self.same(new, recorded, *old, policy, rules))
        })
    }

    /// Whether every answer is one that some message of `recorded` gives to the same question; answers to questions
    /// that none of them knows do not count.
    #[must_use]
    pub fn were_given(&self, recorded: &[Inputs<'_>], policy: InputPolicy, rules: &Rules) -> bool {
        self.answers.iter().all(|(name, new)| {
            let mut known =
                recorded.iter().filter_map(|message| Some((message, message.node(name)?))).peekable();
            known.peek().is_none() || known.any(|(message, old)| self.same(*new, message, old, policy, rules))
        })
    }

    /// The pointers of the answers that do not differ from the recorded ones as far as the policy goes.
    #[must_use]
    pub fn settled(&self, recorded: &Inputs<'_>, policy: InputPolicy, rules: &Rules) -> Vec<String> {
        let settles = |(name, new): &&(String, usize)| {
            recorded.node(name).is_none_or(|old| self.same(*new, recorded, old, policy, rules))
        };
        self.answers.iter().filter(settles).map(|(_, node)| self.tree.pointer(*node)).collect()
    }

    fn same(
        &self,
        new: usize,
        recorded: &Inputs<'_>,
        old: usize,
        policy: InputPolicy,
        rules: &Rules,
    ) -> bool {
        let equal = |new: Option<usize>, old: Option<usize>| {
            let written_alike = |new: usize, old: usize| {
                let Some(span) = recorded.tree.node(old).map(|node| node.span) else { return false };
                let old = (span.of(recorded.tree.text), recorded.written.within(span.start));
                recorded.written.is_redacted() && rules.stands_for(old, self.tree.text_of(new))
            };
            match (new, old) {
                (Some(new), Some(old)) => {
                    let forms = (self.form(new, rules), recorded.form(old, rules));
                    forms.0 == forms.1 || written_alike(new, old)
                }
                (new, old) => new.is_none() && old.is_none(),
            }
        };
        let member = |name| (self.tree.member(new, name), recorded.tree.member(old, name));
        match policy {
            InputPolicy::Keys => true,
            InputPolicy::Exact => equal(Some(new), Some(old)),
            InputPolicy::Action => {
                let (action, recorded_action) = member("action");
                let accepts = action.is_some_and(|action| string::is(self.tree.text_of(action), "accept"));
                let (content, recorded_content) = member("content");
                equal(action, recorded_action) && (!accepts || equal(content, recorded_content))
            }
        }
    }

    /// The comparison form of an answer, under the rules that hold for requests too.
    fn form(&self, node: usize, rules: &Rules) -> Vec<u8> {
        let mut form = Vec::new();
        canonical::write(&self.tree, node, &mut form, &mut |index| match self.treatments.treat(index) {
            Treat::Keep => rules.treat(&self.tree, index),
            treat => treat,
        });
        let _ = self.treatments.settle(&mut form, 0);
        form
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact;

    #[test]
    fn answers_are_compared_by_policy() {
        let rules = Rules::new(
            &["/result/content/at".to_owned()],
            &["uuid".to_owned()],
            redact::Rules::new(true, &[]).unwrap().into(),
        )
        .unwrap();
        for (recorded, live, exact, action) in [
            (
                r#"{"action":"accept","content":{"n":1}}"#,
                r#"{"content":{"n":1.0},"action":"accept"}"#,
                true,
                true,
            ),
            (
                r#"{"action":"accept","content":{"n":1}}"#,
                r#"{"action":"accept","content":{"n":2}}"#,
                false,
                false,
            ),
            (r#"{"action":"accept","content":{"n":1}}"#, r#"{"action":"decline"}"#, false, false),
            (r#"{"action":"decline"}"#, r#"{"action":"decline","content":{}}"#, false, true),
            (
                r#"{"action":"accept","content":{"at":1}}"#,
                r#"{"action":"accept","content":{"at":2}}"#,
                true,
                true,
            ),
            (
                r#"{"action":"accept","content":{"id":"6f9619ff-8b86-d011-b42d-00cf4fc964ff"}}"#,
                r#"{"action":"accept","content":{"id":"00000000-8b86-d011-b42d-00cf4fc964ff"}}"#,
                true,
                true,
            ),
            (
                r#"{"action":"accept","content":{"password":"REDACTED-1"}}"#,
                r#"{"action":"accept","content":{"password":"hunter2"}}"#,
                true,
                true,
            ),
            (
                r#"{"action":"accept","content":{"q":"password=REDACTED-1"}}"#,
                r#"{"action":"accept","content":{"q":"password=host=h db=1"}}"#,
                true,
                true,
            ),
            (
                r#"{"role":"assistant","content":{"text":"a"}}"#,
                r#"{"role":"assistant","content":{"text":"b"}}"#,
                false,
                true,
            ),
        ] {
            let reply = |result: &str| format!("{{\"id\":1,\"result\":{result}}}");
            let (old, new) = (reply(recorded), reply(live));
            let (old, new) = (
                Inputs::of_reply(&old, &rules, Written::All).unwrap(),
                Inputs::of_reply(&new, &rules, Written::Live).unwrap(),
            );
            assert_eq!(new.stand_for(&old, InputPolicy::Exact, &rules), exact, "{recorded} {live}");
            assert_eq!(new.stand_for(&old, InputPolicy::Action, &rules), action, "{recorded} {live}");
            assert!(new.stand_for(&old, InputPolicy::Keys, &rules), "{recorded} {live}");
        }
    }

    #[test]
    fn text_that_looks_like_a_placeholder_is_text_where_the_record_says_so() {
        let rules = Rules::new(&[], &[], redact::Rules::new(true, &[]).unwrap().into()).unwrap();
        let reply = |from: &str, mail: &str| {
            format!(
                r#"{{"id":1,"result":{{"action":"accept","content":{{"from":"{from}","q":"to {mail}"}}}}}}"#
            )
        };
        let recorded = reply("1800-01-01", "REDACTED-1");
        let at = recorded.find("REDACTED").unwrap();
        let spans = [crate::jsonrpc::scan::Span::new(at, at + 10)];
        for (written, from, mail, same) in [
            (Written::At { spans: &spans, base: 0 }, "1800-01-01", "dummy", true),
            (Written::At { spans: &spans, base: 0 }, "2024-05-05", "dummy", false),
            (Written::At { spans: &[], base: 0 }, "1800-01-01", "dummy", false),
            (Written::At { spans: &[], base: 0 }, "1800-01-01", "REDACTED-1", true),
            (Written::All, "2024-05-05", "dummy", true),
            (Written::Nothing, "1800-01-01", "dummy", false),
        ] {
            let live = reply(from, mail);
            let old = Inputs::of_reply(&recorded, &rules, written).unwrap();
            let new = Inputs::of_reply(&live, &rules, Written::Live).unwrap();
            assert_eq!(new.stand_for(&old, InputPolicy::Action, &rules), same, "{written:?} {live}");
        }
    }
}
