//! A flat tree over a JSON text: one node per value, in document order, holding spans only. For the places that must
//! look inside a message (keys, redaction, differences) at any depth.

use super::lexer::{Lexer, Token};
use super::scan::{Span, SyntaxError};
use super::string;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An object; its children have names.
    Object,
    /// An array.
    Array,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true`, `false` or `null`.
    Literal,
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub span: Span,
    /// Its member name (with quotes) when its parent is an object.
    pub name: Option<Span>,
    /// The index one past its last descendant: its next sibling, if it has one.
    pub next: usize,
    /// The index of its parent; the root is its own.
    pub parent: usize,
    /// Its place among its parent's children, from 0.
    place: u32,
}

/// All values of one text.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    /// The text that the spans belong to.
    pub text: &'a str,
    nodes: Vec<Node>,
}

impl<'a> Tree<'a> {
    /// Reads `text`, which must be one JSON value.
    pub fn of(text: &'a str) -> Result<Self, SyntaxError> {
        let mut lexer = Lexer::new(text);
        // A value takes some twenty bytes; large texts may well hold large strings.
        let mut nodes: Vec<Node> = Vec::with_capacity((text.len() / 16).clamp(4, 256));
        let mut name = None;
        let mut parent = 0;
        let mut place = 0_u32;
        while let Some((token, span)) = lexer.next()? {
            let kind = match token {
                Token::Key => {
                    name = Some(span);
                    continue;
                }
                Token::EndObject | Token::EndArray => {
                    let after = nodes.len();
                    if let Some(node) = nodes.get_mut(parent) {
                        node.span.end = span.end;
                        node.next = after;
                        parent = node.parent;
                        place = node.place.saturating_add(1);
                    }
                    continue;
                }
                Token::BeginObject => Kind::Object,
                Token::BeginArray => Kind::Array,
                Token::String => Kind::String,
                Token::Number => Kind::Number,
                Token::Literal => Kind::Literal,
            };
            let index = nodes.len();
            nodes.push(Node { kind, span, name: name.take(), next: index + 1, parent, place });
            if matches!(kind, Kind::Object | Kind::Array) {
                (parent, place) = (index, 0);
            } else {
                place = place.saturating_add(1);
            }
        }
        Ok(Self { text, nodes })
    }

    /// The node at `index`.
    #[must_use]
    pub fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never true: a text has at least one value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes with their indexes, in document order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate()
    }

    /// The children of the node at `index`, in document order.
    #[must_use]
    pub fn children(&self, index: usize) -> Children<'_> {
        let end = self.node(index).map_or(0, |node| node.next);
        Children { nodes: &self.nodes, at: index + 1, end }
    }

    /// The member `name` of the object at `index`, the last one when it is repeated.
    #[must_use]
    pub fn member(&self, index: usize, name: &str) -> Option<usize> {
        self.children(index).filter(|&child| self.name_is(child, name)).last()
    }

    /// Follows member names down from the root.
    #[must_use]
    pub fn path(&self, path: &[&str]) -> Option<usize> {
        path.iter().try_fold(0, |index, name| self.member(index, name))
    }

    /// Whether the node at `index` is a member called `name`.
    #[must_use]
    pub fn name_is(&self, index: usize, name: &str) -> bool {
        self.node(index).and_then(|node| node.name).is_some_and(|span| string::is(span.of(self.text), name))
    }

    /// The text of the node at `index`.
    #[must_use]
    pub fn text_of(&self, index: usize) -> &'a str {
        self.node(index).map_or("", |node| node.span.of(self.text))
    }

    /// The JSON Pointer (RFC 6901) of the node at `index`.
    #[must_use]
    pub fn pointer(&self, index: usize) -> String {
        let mut segments = Vec::new();
        let mut at = index;
        while at != 0 {
            let Some(node) = self.node(at) else { break };
            segments.push(match node.name {
                Some(name) => string::decode(name.of(self.text)).replace('~', "~0").replace('/', "~1"),
                None => node.place.to_string(),
            });
            at = node.parent;
        }
        segments.iter().rev().fold(String::new(), |pointer, segment| pointer + "/" + segment)
    }
}

/// Iterates over the children of a node.
#[derive(Clone, Debug)]
pub struct Children<'t> {
    nodes: &'t [Node],
    at: usize,
    end: usize,
}

impl Iterator for Children<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.at >= self.end {
            return None;
        }
        let index = self.at;
        self.at = self.nodes.get(index)?.next;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_members_and_pointers() {
        let text = r#"{"a":[10,{"b/~":2}],"c":{},"a":3}"#;
        let tree = Tree::of(text).unwrap();
        assert_eq!(
            tree.children(0).map(|child| tree.text_of(child)).collect::<Vec<_>>(),
            [r#"[10,{"b/~":2}]"#, "{}", "3"]
        );
        assert_eq!(tree.text_of(tree.member(0, "a").unwrap()), "3");
        let deep = tree.iter().find(|(_, node)| node.span.of(text) == "2").unwrap().0;
        assert_eq!(tree.pointer(deep), "/a/1/b~1~0");
        assert_eq!(tree.pointer(0), "");
        let tree = Tree::of(r#"[[],[0,[1],{"x":[7,8]}],2]"#).unwrap();
        let pointers: Vec<String> = tree.iter().map(|(index, _)| tree.pointer(index)).collect();
        let expected =
            ["", "/0", "/1", "/1/0", "/1/1", "/1/1/0", "/1/2", "/1/2/x", "/1/2/x/0", "/1/2/x/1", "/2"];
        assert_eq!(pointers, expected);
    }

    #[test]
    fn depth_is_no_limit() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert_eq!(Tree::of(&deep).unwrap().len(), 200_000);
    }
}
