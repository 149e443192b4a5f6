//! Versions of four parts, which look like addresses: `opencv-python 4.8.0.76`. A name in front of four numbers is more
//! often a machine than a package, so something else has to say that it is one.

use std::net::Ipv4Addr;

use crate::jsonrpc::scan::Span;
use crate::jsonrpc::tree::{Kind, Tree};

/// Programs and libraries whose versions have four parts, and that nobody calls a machine by.
const PACKAGES: [&str; 27] = [
    "activerecord",
    "activesupport",
    "brave",
    "chrome",
    "chromedriver",
    "chromium",
    "corretto",
    "cudnn",
    "electron",
    "jdk",
    "libreoffice",
    "msedge",
    "msedgedriver",
    "nccl",
    "numpy",
    "opencv",
    "openjdk",
    "pandas",
    "protobuf",
    "pycocotools",
    "rails",
    "setuptools",
    "tensorrt",
    "torch",
    "torchvision",
    "vivaldi",
    "webview",
];

/// What is done to packages, in front of the name of one.
const DONE: [&str; 16] = [
    "collecting",
    "dependency",
    "downgraded",
    "downgrading",
    "install",
    "installed",
    "installing",
    "library",
    "package",
    "require",
    "required",
    "requirement",
    "requires",
    "upgrade",
    "upgraded",
    "upgrading",
];

/// Words in front of an address, none of which is the name of a package.
const BEFORE_ADDRESSES: [&str; 68] = [
    "a",
    "accept",
    "addr",
    "address",
    "addresses",
    "against",
    "agent",
    "allow",
    "and",
    "as",
    "at",
    "bind",
    "block",
    "by",
    "client",
    "connect",
    "connected",
    "connection",
    "database",
    "db",
    "deny",
    "dest",
    "destination",
    "dns",
    "domain",
    "endpoint",
    "for",
    "from",
    "gateway",
    "host",
    "hosts",
    "in",
    "inet",
    "instance",
    "into",
    "ip",
    "ips",
    "is",
    "listen",
    "local",
    "machine",
    "master",
    "nameserver",
    "near",
    "node",
    "of",
    "on",
    "onto",
    "or",
    "peer",
    "ping",
    "proxy",
    "remote",
    "route",
    "router",
    "server",
    "source",
    "src",
    "target",
    "the",
    "through",
    "to",
    "use",
    "user",
    "via",
    "was",
    "with",
    "worker",
];

/// Members whose members are packages, or whose elements are versions.
const LISTS: [&str; 12] = [
    "constraints",
    "dependencies",
    "engines",
    "installed",
    "installed_packages",
    "overrides",
    "packages",
    "requirements",
    "requires",
    "resolutions",
    "resolved",
    "versions",
];

/// Members of what tells which versions there are of a package.
const OFFERS: [&str; 8] =
    ["available", "current", "installed", "latest", "minimum", "newest", "required", "wanted"];

/// Whether a string of JSON is a version of four parts, by what it stands in or beside: in `dependencies` and lists
/// like that, between other versions, or as one of those that there are.
pub(super) fn is_version(tree: &Tree<'_>, index: usize) -> bool {
    /// Looking at no more siblings keeps large objects linear.
    const MOST: usize = 64;
    let inside = |index: usize| tree.text_of(index).trim_matches('"');
    let number = inside(index).trim_start_matches(['^', '~', '=', '<', '>', ' ', 'v']);
    if !number.parse().is_ok_and(may_be_version) || index == 0 {
        return false;
    }
    let Some(node) = tree.node(index) else { return false };
    let parent = node.parent;
    let name = |index: usize| {
        tree.node(index).and_then(|node| node.name).map_or("", |name| name.of(tree.text).trim_matches('"'))
    };
    let list = name(parent).to_ascii_lowercase();
    if LISTS.binary_search(&list.as_str()).is_ok() || list.ends_with("dependencies") {
        return true;
    }
    let siblings = || tree.children(parent).take(MOST).filter(|sibling| *sibling != index);
    let is_offer = |name: &str| OFFERS.binary_search(&name.to_ascii_lowercase().as_str()).is_ok();
    if is_offer(name(index)) {
        let tells = |name: &str| is_offer(name) || name.to_ascii_lowercase().ends_with("version");
        return siblings().any(|sibling| tells(name(sibling)));
    }
    let parts = |index: usize| {
        let text = inside(index).trim_start_matches(['^', '~', '=', '<', '>', ' ', 'v']);
        let parts = text.split('.').count();
        text.split('.').all(is_number).then_some(parts)
    };
    let others =
        || siblings().filter(|sibling| tree.node(*sibling).is_some_and(|node| node.kind == Kind::String));
    others().all(|other| matches!(parts(other), Some(2..=4)))
        && others().filter(|other| parts(*other) == Some(3)).count() >= 2
        && others().count() == siblings().count()
}

/// Whether the four numbers at `span` are the version of a package, by the name in front of them, what is done to it,
/// or the lines around. Private addresses are never taken for one here.
pub(super) fn is_one_of_a_package(text: &str, span: Span, address: Ipv4Addr) -> bool {
    // Ports, networks and what goes on are of addresses.
    let goes_on = text.get(span.end..).is_some_and(|back| back.starts_with([':', '/', '@']));
    // `opencv 4.7.0.72 -> 4.8.0.76`: the one before tells.
    let is_newer = || {
        older(text, span).is_some_and(|older| {
            older.of(text).parse().is_ok_and(|address| may_be_version(address) && is_named(text, older))
        })
    };
    !goes_on && may_be_version(address) && (is_named(text, span) || is_newer())
}

fn may_be_version(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let shared = first == 100 && (64..128).contains(&second);
    !(address.is_private() || address.is_link_local() || shared || first >= 200)
}

/// What stands in front of an arrow in front of `span`.
fn older(text: &str, span: Span) -> Option<Span> {
    let front = last_line(text.get(..span.start)?);
    let arrow = front.trim_end_matches(' ');
    let before =
        ["->", "=>", "\u{2192}"].iter().find_map(|sign| arrow.strip_suffix(sign))?.trim_end_matches(' ');
    let digits = before.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    let start = span.start - front.len();
    Some(Span::new(start + digits.len(), start + before.len()))
}

fn is_named(text: &str, span: Span) -> bool {
    let front = last_line(text.get(..span.start).unwrap_or(""));
    let back = text.get(span.end..).unwrap_or("");
    let (front, braced) = match front.strip_suffix('(') {
        Some(front) => (front, back.starts_with(')')),
        None => (front, true),
    };
    let before = front.trim_end_matches([' ', '\t', ':', '|', ',', '=', '<', '>', '~', '!']);
    let name_start = before.rfind(|char: char| !is_name_char(char)).map_or(0, |at| at + last_len(before, at));
    let (lead, name) = (before.get(..name_start).unwrap_or(""), before.get(name_start..).unwrap_or(""));
    if !braced || before.len() == front.len() || !name.starts_with(|char: char| char.is_ascii_alphabetic()) {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let parts = || lower.split(['-', '_']);
    if parts().any(|part| BEFORE_ADDRESSES.binary_search(&part).is_ok())
        || ["host", "addr", "server"].iter().any(|part| lower.contains(part))
        || lower.ends_with("ip")
        || lower.contains('.')
    {
        return false;
    }
    let known = parts().any(|part| PACKAGES.binary_search(&part).is_ok());
    let word = lead.trim_end_matches([' ', '\t', ':', '"', '\'', '`']);
    let word =
        word.rsplit(|char: char| !char.is_ascii_alphabetic()).next().unwrap_or("").to_ascii_lowercase();
    let alone = lead.trim_matches([' ', '\t', '*', '-', '|']).is_empty() && !front.contains([':', '=']);
    known || DONE.binary_search(&word.as_str()).is_ok() || (alone && is_listed(text, span))
}

/// Whether the lines near the one of `span` are a list of packages: its head is among them, or two names with versions
/// of three parts and nothing else.
fn is_listed(text: &str, span: Span) -> bool {
    const NEAR: usize = 400;
    let front = text.get(floor(text, span.start.saturating_sub(NEAR))..span.start).unwrap_or("");
    let back = text.get(span.end..floor(text, span.end.saturating_add(NEAR).min(text.len()))).unwrap_or("");
    // The first of each is the line of the span itself.
    let above = front.rsplit('\n').skip(1).take(3);
    let below = back.split('\n').skip(1).take(3);
    let mut versions = 0;
    let mut others = 0;
    for line in above.chain(below) {
        let words: Vec<&str> = line
            .split([' ', '\t', '|', '(', ')'])
            .filter(|word| word.contains(char::is_alphanumeric))
            .take(3)
            .collect();
        match words.as_slice() {
            [] => {}
            [name, version, ..]
                if (name.eq_ignore_ascii_case("package") || name.eq_ignore_ascii_case("name"))
                    && version.eq_ignore_ascii_case("version") =>
            {
                return true;
            }
            [name, version] if name.starts_with(|char: char| char.is_ascii_alphabetic()) => {
                match version.trim_start_matches('v').split('.').filter(|part| is_number(part)).count() {
                    3 => versions += 1,
                    4 => {}
                    _ => others += 1,
                }
            }
            _ => others += 1,
        }
    }
    versions >= 2 && others == 0
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_name_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.')
}

fn last_len(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The end of a text, from its last line break on, as far as it matters.
fn last_line(text: &str) -> &str {
    const NEAR: usize = 120;
    let near = text.get(floor(text, text.len().saturating_sub(NEAR))..).unwrap_or("");
    near.rsplit('\n').next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order() {
        assert!(LISTS.is_sorted() && OFFERS.is_sorted());
        assert!(PACKAGES.is_sorted() && DONE.is_sorted() && BEFORE_ADDRESSES.is_sorted());
    }
}
