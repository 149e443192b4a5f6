//! Which values of one JSON text a rule covers. One pass over the tree in document order; what is known about a
//! container (the rule it stands under, whether it is a JSON Schema, whether its members are the protocol's or the
//! user's) is kept for its children.

use std::collections::HashMap;

use super::key::{Count, Spared, is_count};
use super::look::{Look, Scope};
use super::names::Name;
use super::pairs;
use super::reference::is_known_word;
use super::roles::Roles;
use super::rules::{Facts, Rules};
use super::schema;
use super::versions;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Node, Tree};

/// A rule that covers a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Under {
    rule: usize,
    /// Numbers are counts and stay.
    counts: bool,
}

/// Where a container stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A batch, whose elements are messages.
    Batch,
    /// A message.
    Envelope,
    /// Below `params`, `result` or `error`: the protocol's own members.
    Protocol,
    /// `_meta`: like [`Place::User`], but for the names that MCP reserves.
    Meta,
    /// What users, tools and applications wrote.
    User,
    /// What MCP reserves.
    Reserved,
    /// A JSON Schema, and the rule that its property's name matches.
    Schema(Option<Under>),
    /// A map from property names to schemas, and the rule of the property it belongs to.
    Properties(Option<Under>),
}

#[derive(Clone, Copy, Debug)]
struct Context {
    place: Place,
    under: Option<Under>,
    /// Children met so far.
    children: usize,
    /// Position among its parent's children.
    position: usize,
}

/// A covered scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) node: usize,
    pub(super) rule: usize,
}

/// What a walk found.
#[derive(Debug)]
pub(super) struct Walk {
    /// Covered scalars, in document order. Empty strings and nulls are among them: they stay in the text, but are
    /// compared like any other covered value.
    pub(super) marks: Vec<Mark>,
    /// Strings that no rule covers as a whole and that may hold something, in document order.
    pub(super) open: Vec<(usize, Scope)>,
    /// Members whose names may hold something, in document order.
    pub(super) names: Vec<usize>,
    /// Whether a rule covers any node.
    pub(super) covers: bool,
    contexts: Vec<Context>,
}

impl Walk {
    /// Walks a message (`envelope`) or a JSON text found inside one.
    pub(super) fn of(look: &Look<'_>, tree: &Tree<'_>, envelope: bool) -> Self {
        let rules = look.rules;
        let pointed = if envelope { pointed(rules, tree) } else { HashMap::new() };
        let mut names = rules.names().open(rules);
        let echoed = look.echoes.filter(|echoes| echoes.may_be_in(tree.text.as_bytes()));
        let mut walk = Self {
            marks: Vec::new(),
            open: Vec::new(),
            names: Vec::new(),
            covers: false,
            contexts: Vec::with_capacity(tree.len()),
        };
        for (index, node) in tree.iter() {
            let name = node.name.map(|name| names.get(name.of(tree.text)));
            let mut context = match walk.contexts.get_mut(node.parent).filter(|_| index != 0) {
                None => root(tree, node, envelope),
                Some(parent) => {
                    let position = parent.children;
                    parent.children += 1;
                    child(rules, tree, index, parent, position, name)
                }
            };
            let may_be_paired = match context.place {
                Place::User | Place::Meta => true,
                Place::Protocol => !pairs::is_protocols(tree, index),
                _ => false,
            };
            if may_be_paired && context.under.is_none() {
                context.under = pairs::named_by_neighbour(rules, tree, index)
                    .map(|(rule, counts)| Under { rule, counts });
            }
            let holds = |literal: Span| {
                look.is_thorough()
                    || name.is_some_and(|name| name.holds)
                    || echoed.is_some_and(|echoes| echoes.may_be_in(literal.of(tree.text).as_bytes()))
            };
            if node.name.is_some_and(holds) && !names_a_role(tree, &walk.contexts, node.parent, name) {
                walk.names.push(index);
            }
            if let Some(&rule) = pointed.get(&index)
                && context.place != Place::Reserved
            {
                context.under = Some(Under { rule, counts: false });
            }
            walk.covers |= context.under.is_some();
            walk.contexts.push(context);
            match (node.kind, context.under) {
                (Kind::String, Some(under)) => walk.marks.push(Mark { node: index, rule: under.rule }),
                (Kind::Number, Some(under)) if !under.counts => {
                    walk.marks.push(Mark { node: index, rule: under.rule });
                }
                (Kind::Literal, Some(under)) if tree.text_of(index) == "null" => {
                    walk.marks.push(Mark { node: index, rule: under.rule });
                }
                (Kind::String, None) => {
                    let scope = scope(tree, index, &context, name.map(|name| name.roles));
                    if let Some(scope) = scope
                        && look.string(tree.text_of(index), scope)
                    {
                        let version = scope == Scope::All && versions::is_version(tree, index);
                        walk.open.push((index, if version { Scope::Routing } else { scope }));
                    }
                }
                _ => {}
            }
        }
        walk
    }

    /// Whether a rule covers the node.
    pub(super) fn is_covered(&self, node: usize) -> bool {
        self.contexts.get(node).is_some_and(|context| context.under.is_some())
    }

    /// The JSON pointer of a node. Of very deep ones only the end, so that no text takes quadratic time.
    pub(super) fn pointer(&self, tree: &Tree<'_>, node: usize) -> String {
        const DEEP: usize = 200;
        let mut segments = Vec::new();
        let mut at = node;
        while at != 0 {
            let (Some(node), Some(context)) = (tree.node(at), self.contexts.get(at)) else { break };
            if segments.len() == DEEP {
                segments.push("…".to_owned());
                break;
            }
            segments.push(match node.name {
                Some(name) => string::decode(name.of(tree.text)).replace('~', "~0").replace('/', "~1"),
                None => context.position.to_string(),
            });
            at = node.parent;
        }
        segments.iter().rev().fold(String::new(), |pointer, segment| pointer + "/" + segment)
    }
}

fn root(tree: &Tree<'_>, node: &Node, envelope: bool) -> Context {
    let place = match (envelope, node.kind) {
        (true, Kind::Array) => Place::Batch,
        (true, _) => Place::Envelope,
        (false, _) => schema_or(tree, 0, Place::User, None),
    };
    Context { place, under: None, children: 0, position: 0 }
}

fn child(
    rules: &Rules,
    tree: &Tree<'_>,
    index: usize,
    parent: &Context,
    position: usize,
    name: Option<Name>,
) -> Context {
    let context = |place, under| Context { place, under, children: 0, position };
    let Some((node, Name { facts, roles, .. })) = tree.node(index).and_then(|node| Some((node, name?)))
    else {
        let place = if parent.place == Place::Batch { Place::Envelope } else { parent.place };
        return context(schema_or(tree, index, place, parent.under), parent.under);
    };
    let container = matches!(node.kind, Kind::Object | Kind::Array);
    match parent.place {
        Place::Reserved => context(Place::Reserved, None),
        Place::Envelope => match () {
            () if roles.routes => context(Place::Reserved, None),
            () if roles.opens => context(Place::Protocol, parent.under),
            () => context(Place::User, judged(rules, tree, facts, node, parent.under, true)),
        },
        Place::Schema(property) => match () {
            () if parent.under.is_some() => context(parent.place, parent.under),
            // No schema has such a keyword.
            () if !container && !roles.keyword && facts.rule.is_some_and(|rule| rules.is_default(rule)) => {
                context(Place::User, judged(rules, tree, facts, node, None, true))
            }
            () if roles.schema_values => context(Place::User, property_value(node, property)),
            // Nor such a one: whatever it is, it is the secret property's.
            () if !container && property.is_some() && (!roles.keyword || roles.extension) => {
                context(Place::User, property_value(node, property))
            }
            () if node.kind == Kind::Object && roles.schema_names => {
                context(Place::Properties(property), None)
            }
            () => context(Place::Schema(property), None),
        },
        // A property without a schema: then this is no JSON Schema after all.
        Place::Properties(_) if matches!(node.kind, Kind::String | Kind::Number) => {
            context(Place::User, judged(rules, tree, facts, node, parent.under, true))
        }
        Place::Properties(property) => {
            let own = match (facts.rule, facts.spared) {
                (Some(rule), Spared::No) => {
                    Some(Under { rule, counts: facts.count != Count::No && rules.is_default(rule) })
                }
                (_, Spared::No) => property,
                _ => None,
            };
            context(Place::Schema(own), parent.under)
        }
        Place::Batch | Place::Protocol | Place::Meta | Place::User => {
            let protocol = parent.place == Place::Protocol;
            if (protocol && !container && roles.protocol) || (parent.place == Place::Meta && roles.reserved) {
                return context(Place::Reserved, None);
            }
            // Elsewhere it is one when it looks like one, which is found out below.
            if node.kind == Kind::Object && roles.schema && parent.place == Place::Protocol {
                return context(Place::Schema(None), None);
            }
            let user = roles.user || (node.kind == Kind::Object && roles.content);
            let place = match () {
                () if protocol && roles.meta => Place::Meta,
                () if protocol && user && !is_content_block(tree, index) => Place::User,
                () if protocol => Place::Protocol,
                () => Place::User,
            };
            let under = judged(rules, tree, facts, node, parent.under, !protocol);
            // `"token": {"type": "string"}` is what a token has to be, and no token.
            if under.is_some() && facts.rule.is_some() && place == Place::User && schema::is_one(tree, index)
            {
                return context(Place::Schema(under), None);
            }
            context(schema_or(tree, index, place, under), under)
        }
    }
}

/// Whether a member's name is one that the protocol has there, or a keyword of a schema: whatever a rule over text says,
/// it stays.
fn names_a_role(tree: &Tree<'_>, contexts: &[Context], parent: usize, name: Option<Name>) -> bool {
    let Some((Name { roles, .. }, context)) = name.zip(contexts.get(parent)) else { return false };
    match context.place {
        Place::Batch | Place::Envelope | Place::Protocol | Place::Reserved => roles.member,
        Place::Meta => roles.reserved || roles.member,
        Place::Schema(_) => roles.keyword || roles.schema_names || roles.schema_values || roles.applicator,
        // What goes along with a completion, and what the protocol's own errors say.
        Place::User => {
            let above = tree.node(parent).and_then(|node| contexts.get(node.parent));
            let is_below = |names: [&str; 2]| names.iter().any(|name| tree.name_is(parent, name));
            roles.member
                && above.is_some_and(|above| above.place == Place::Protocol)
                && is_below(["context", "data"])
        }
        Place::Properties(_) => false,
    }
}

/// What is looked for in a string that no rule covers; `None` where it is not looked into.
fn scope(tree: &Tree<'_>, index: usize, context: &Context, roles: Option<Roles>) -> Option<Scope> {
    let roles = roles.unwrap_or_default();
    match context.place {
        Place::Reserved if roles.fixed => None,
        Place::Schema(_) | Place::Properties(_) if roles.prose => Some(Scope::All),
        Place::Reserved | Place::Schema(_) | Place::Properties(_) => Some(Scope::Routing),
        _ if roles.binary && pairs::is_binary(tree, index) => None,
        // `1.2.3.4` is no address there.
        _ if roles.version => Some(Scope::Routing),
        Place::Protocol if pairs::is_word(tree, index) => None,
        Place::User if pairs::is_refused_revision(tree, index) => None,
        _ => Some(Scope::All),
    }
}

/// What covers a member, from its own name and from what covers its parent.
fn judged(
    rules: &Rules,
    tree: &Tree<'_>,
    facts: Facts,
    node: &Node,
    inherited: Option<Under>,
    user: bool,
) -> Option<Under> {
    // Among what users wrote, a name of the protocol's is a name like others; its numbers are what they are there.
    let count = match facts.spared {
        Spared::Protocol if !user => return None,
        Spared::Protocol => Count::Word,
        Spared::Harmless => return inherited,
        Spared::No => facts.count,
    };
    let Some(rule) = facts.rule else { return inherited };
    let text = |span: Span| span.of(tree.text).trim_matches('"');
    if node.kind == Kind::String
        && rules.is_default(rule)
        && node.name.is_some_and(|name| is_known_word(text(name), text(node.span)))
    {
        return inherited;
    }
    if !rules.is_default(rule) || count == Count::No {
        return Some(Under { rule, counts: false });
    }
    let harmless = count == Count::Word && (node.kind != Kind::String || is_count(text(node.span)));
    if harmless {
        inherited.map(|under| Under { counts: true, ..under })
    } else {
        Some(Under { rule, counts: true })
    }
}

fn property_value(node: &Node, property: Option<Under>) -> Option<Under> {
    property.filter(|under| !(under.counts && node.kind == Kind::Number))
}

/// `place`, or a schema when the node is one without being called so.
fn schema_or(tree: &Tree<'_>, index: usize, place: Place, under: Option<Under>) -> Place {
    let free = under.is_none() && matches!(place, Place::Protocol | Place::Meta | Place::User);
    if free && schema::describes_properties(tree, index) { Place::Schema(None) } else { place }
}

/// Sampling messages and tool results have `content` blocks, elicitation answers have user data there.
fn is_content_block(tree: &Tree<'_>, index: usize) -> bool {
    tree.name_is(index, "content") && tree.member(index, "type").is_some()
}

/// The nodes that pointer rules name, with the rule that comes first for each.
fn pointed(rules: &Rules, tree: &Tree<'_>) -> HashMap<usize, usize> {
    let mut found = HashMap::new();
    let batch = tree.node(0).is_some_and(|node| node.kind == Kind::Array);
    for (rule, segments) in rules.pointers() {
        let mut here: Vec<usize> = if batch { tree.children(0).collect() } else { vec![0] };
        for segment in segments {
            let mut below = Vec::new();
            for parent in here {
                let object = tree.node(parent).is_some_and(|node| node.kind == Kind::Object);
                match segment {
                    None => below.extend(tree.children(parent)),
                    // All members of a repeated name: each of them is on the wire.
                    Some(name) if object => {
                        below.extend(tree.children(parent).filter(|&child| tree.name_is(child, name)));
                    }
                    Some(position) => {
                        let position = position.parse().ok();
                        below.extend(position.and_then(|position| tree.children(parent).nth(position)));
                    }
                }
            }
            here = below;
        }
        for node in here {
            found.entry(node).or_insert(rule);
        }
    }
    found
}
