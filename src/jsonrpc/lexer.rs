//! The tokens of a JSON text, one after the other.

use super::scan::{Span, SyntaxError, scalar_end, skip_space, string_end};

/// What a [`Lexer`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// `{`
    BeginObject,
    /// `}`
    EndObject,
    /// `[`
    BeginArray,
    /// `]`
    EndArray,
    /// The name of a member, with its quotes; the colon after it has been read.
    Key,
    /// A string value, with its quotes.
    String,
    /// A number as it is spelt.
    Number,
    /// `true`, `false` or `null`.
    Literal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrEnd,
    KeyOrEnd,
    Key,
    CommaOrEnd,
    Nothing,
}

/// Yields the tokens of one JSON value, then checks that only white space follows it.
#[derive(Debug)]
pub struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    expect: Expect,
    /// `true` for an object, `false` for an array, innermost last.
    open: Vec<bool>,
}

impl<'a> Lexer<'a> {
    /// Starts at the beginning of `text`.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0, expect: Expect::Value, open: Vec::new() }
    }

    /// How many containers are open.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// One past the last byte read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError { at: self.at, expected })
    }

    /// The next token, or `None` after the end of the value.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(Token, Span)>, SyntaxError> {
        loop {
            self.at = skip_space(self.bytes, self.at);
            let start = self.at;
            let byte = self.bytes.get(start).copied();
            match (self.expect, byte) {
                (Expect::Nothing, None) => return Ok(None),
                (Expect::Nothing, Some(_)) => return self.fail("the end"),
                (_, None) => return self.fail("more: the text ends in the middle of a value"),
                (Expect::CommaOrEnd, Some(b',')) => {
                    self.at += 1;
                    self.expect = if self.open.last() == Some(&true) { Expect::Key } else { Expect::Value };
                }
                (Expect::CommaOrEnd | Expect::KeyOrEnd, Some(b'}')) if self.open.last() == Some(&true) => {
                    return Ok(Some(self.close(Token::EndObject)));
                }
                (Expect::CommaOrEnd | Expect::ValueOrEnd, Some(b']')) if self.open.last() == Some(&false) => {
                    return Ok(Some(self.close(Token::EndArray)));
                }
                (Expect::CommaOrEnd, _) => return self.fail("a comma or the end of the container"),
                (Expect::Key | Expect::KeyOrEnd, Some(b'"')) => {
                    let end = string_end(self.bytes, start)?;
                    self.at = skip_space(self.bytes, end);
                    if self.bytes.get(self.at) != Some(&b':') {
                        return self.fail("a colon");
                    }
                    self.at += 1;
                    self.expect = Expect::Value;
                    return Ok(Some((Token::Key, Span::new(start, end))));
                }
                (Expect::Key | Expect::KeyOrEnd, _) => return self.fail("a member name in quotes"),
                (Expect::Value | Expect::ValueOrEnd, Some(byte)) => return self.value(byte, start).map(Some),
            }
        }
    }

    fn close(&mut self, token: Token) -> (Token, Span) {
        let start = self.at;
        self.at += 1;
        self.open.pop();
        self.after_value();
        (token, Span::new(start, self.at))
    }

    fn after_value(&mut self) {
        self.expect = if self.open.is_empty() { Expect::Nothing } else { Expect::CommaOrEnd };
    }

    fn value(&mut self, byte: u8, start: usize) -> Result<(Token, Span), SyntaxError> {
        let token = match byte {
            b'{' | b'[' => {
                let object = byte == b'{';
                self.at += 1;
                self.open.push(object);
                self.expect = if object { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
                let token = if object { Token::BeginObject } else { Token::BeginArray };
                return Ok((token, Span::new(start, self.at)));
            }
            b'"' => {
                self.at = string_end(self.bytes, start)?;
                Token::String
            }
            _ => {
                self.at = scalar_end(self.bytes, start)?;
                if byte.is_ascii_alphabetic() { Token::Literal } else { Token::Number }
            }
        };
        self.after_value();
        Ok((token, Span::new(start, self.at)))
    }
}
