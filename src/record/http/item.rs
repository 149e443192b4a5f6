//! What goes through the queue for one record of an HTTP exchange: a line of its own kind, so that the queue and the
//! recorder thread are those of stdio.

use super::super::From;

/// How an answer ended that is more than one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The server ended it properly.
    Finished,
    /// The server broke off, or never answered.
    Cut,
    /// The server broke off in the middle of a body, of which there is a record.
    CutBody,
    /// The client left.
    ClientClosed,
    /// The answer was too large to be kept, or in a coding that cannot be read.
    NotKept,
    /// The recorder was ended.
    RecorderEnded,
}

/// One record to be made, or the end of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) from: From,
    pub(super) exchange: u32,
    /// 0: none, or not known yet.
    pub(super) session: u32,
    /// The exchange in which the answer to a request comes; on HTTP+SSE that is not its own.
    pub(super) scope: u32,
    /// It belongs to a standalone stream.
    pub(super) get: bool,
    /// The server's only record in this exchange.
    pub(super) whole: bool,
    pub(super) end: Option<End>,
    /// The HTTP facts: members of a JSON object without its braces.
    pub(super) facts: &'a str,
    /// Headers that repeat what the body says, as `name: value` lines.
    pub(super) mirrors: &'a str,
    pub(super) body: Option<&'a [u8]>,
}

const GET: u8 = 1;
const WHOLE: u8 = 2;
const BODY: u8 = 4;
const ENDS: [Option<End>; 7] = [
    None,
    Some(End::Finished),
    Some(End::Cut),
    Some(End::CutBody),
    Some(End::ClientClosed),
    Some(End::NotKept),
    Some(End::RecorderEnded),
];

impl<'a> Item<'a> {
    /// An item about an exchange that answers itself.
    pub(super) fn of(from: From, exchange: u32, session: u32) -> Self {
        Self {
            from,
            exchange,
            session,
            scope: exchange,
            get: false,
            whole: false,
            end: None,
            facts: "",
            mirrors: "",
            body: None,
        }
    }

    /// As a line for the queue.
    pub(super) fn encode(&self) -> Vec<u8> {
        let body = self.body.unwrap_or_default();
        let mut out = Vec::with_capacity(24 + self.facts.len() + self.mirrors.len() + body.len());
        let length = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX);
        for number in [self.exchange, self.session, self.scope, length(self.facts), length(self.mirrors)] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(flag(self.get, GET) | flag(self.whole, WHOLE) | flag(self.body.is_some(), BODY));
        let end = ENDS.iter().position(|end| *end == self.end).unwrap_or(0);
        out.push(u8::try_from(end).unwrap_or(0));
        out.extend_from_slice(self.facts.as_bytes());
        out.extend_from_slice(self.mirrors.as_bytes());
        out.extend_from_slice(body);
        out
    }

    /// The item in a line; `None` if it is none.
    pub(super) fn decode(from: From, line: &'a [u8]) -> Option<Self> {
        let mut numbers = [0; 5];
        let mut rest = line;
        for number in &mut numbers {
            let (bytes, after) = rest.split_first_chunk()?;
            *number = u32::from_le_bytes(*bytes);
            rest = after;
        }
        let ([flags, end], rest) = rest.split_first_chunk()?;
        let [exchange, session, scope, facts, mirrors] = numbers;
        let (facts, rest) = rest.split_at_checked(usize::try_from(facts).ok()?)?;
        let (mirrors, body) = rest.split_at_checked(usize::try_from(mirrors).ok()?)?;
        Some(Self {
            from,
            exchange,
            session,
            scope,
            get: flags & GET != 0,
            whole: flags & WHOLE != 0,
            end: ENDS.get(usize::from(*end)).copied().flatten(),
            facts: std::str::from_utf8(facts).ok()?,
            mirrors: std::str::from_utf8(mirrors).ok()?,
            body: (flags & BODY != 0).then_some(body),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        for end in ENDS {
            for body in [None, Some(&b""[..]), Some(b"{\n\xff}")] {
                let item = Item {
                    scope: 3,
                    get: end.is_some(),
                    whole: body.is_some(),
                    end,
                    facts: "\"status\":200",
                    mirrors: "mcp-name: \u{e9}\n",
                    body,
                    ..Item::of(From::Server, 7, u32::MAX)
                };
                assert_eq!(Item::decode(From::Server, &item.encode()), Some(item));
            }
        }
        assert_eq!(Item::decode(From::Client, b"short"), None);
    }
}
