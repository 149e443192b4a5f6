//! What the recorded lists of tools say about header fields (`x-mcp-header`): what a modern client was told to repeat.

use std::collections::{HashMap, HashSet};

use crate::http::Headers;
use crate::jsonrpc::message::View;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::Tree;
use crate::mcp::parameters::Parameter;
use crate::mcp::{self, Era};
use crate::redact;
use crate::replay::tape::Tape;

/// The parameters of each tool, once for each time that it was listed otherwise: which list a live client goes by is
/// not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared(HashMap<String, Vec<Vec<Parameter>>>);

impl Declared {
    /// What the lists for modern clients declare. What redaction covers in them is not the server's text.
    #[must_use]
    pub fn of(tape: &Tape, redaction: &redact::Rules) -> Self {
        let lists: HashSet<&str> = (0..)
            .zip(&tape.exchanges)
            .filter(|(_, exchange)| exchange.era == Era::Modern)
            .filter(|(number, _)| {
                tape.request(*number).is_some_and(|item| item.view.method_name(&tape.text) == "tools/list")
            })
            .filter_map(|(number, _)| Some(tape.answer(number)?.view.whole.of(&tape.text)))
            .collect();
        let mut declared = Self::default();
        // Nearly no server declares any, and lists are long.
        if lists.iter().any(|list| memchr::memmem::find(list.as_bytes(), b"x-mcp-header").is_some()) {
            lists.iter().for_each(|list| declared.add(list, redaction));
        }
        declared.0.retain(|_, versions| versions.iter().all(|version| !version.is_empty()));
        declared
    }

    fn add(&mut self, list: &str, redaction: &redact::Rules) {
        let Ok(tree) = Tree::of(list) else { return };
        let treatments = redaction.treatments(&tree, redact::Written::All);
        let hidden = |node: usize| treatments.covers(node);
        let Some(tools) = tree.path(&["result", "tools"]) else { return };
        for tool in tree.children(tools) {
            let Some(name) = tree.member(tool, "name") else { continue };
            let name = string::decode(tree.text_of(name)).into_owned();
            let schema = tree.member(tool, "inputSchema");
            let version =
                schema.map(|schema| Parameter::of_schema(&tree, schema, &hidden)).unwrap_or_default();
            let versions = self.0.entry(name).or_default();
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
    }

    /// Whether the fields of a call agree with its arguments, by one of the lists at least.
    ///
    /// # Errors
    ///
    /// In what they do not, in words.
    pub fn check(&self, fields: &Headers, text: &str, view: &View) -> Result<(), String> {
        let method = view.method_name(text);
        let tool = mcp::target(&method, text, view).filter(|_| method == "tools/call");
        let Some(versions) = tool.and_then(|tool| self.0.get(&tool)) else { return Ok(()) };
        let Ok(call) = Tree::of(view.whole.of(text)) else { return Ok(()) };
        let arguments = call.path(&["params", "arguments"]);
        let check = |parameter: &Parameter| {
            let checked = parameter.check(&call, arguments, fields.all(parameter.field()));
            checked.map_err(|why| format!("{} {why}", parameter.field()))
        };
        let mut checked = Ok(());
        for version in versions {
            checked = version.iter().try_for_each(check);
            if checked.is_ok() {
                break;
            }
        }
        checked
    }
}
