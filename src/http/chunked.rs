//! The chunked transfer coding (RFC 9112, section 7.1): a writer that makes one chunk per flush, and a decoder that
//! accepts nothing but the grammar.
//!
//! The decoder is strict because a proxy that reads a size otherwise than the server behind it lets requests be
//! smuggled: bare LF, white space around sizes and signs are refused.

use std::fmt;
use std::io::{self, Write};

/// Bytes that are collected before a chunk is written without a flush.
const FULL: usize = 64 * 1024;

/// Writes what is given to it in chunks: one for all that was written since the last flush, in one `write` of the
/// writer below. Large pieces make chunks of their own.
#[derive(Debug)]
pub struct ChunkWriter<W: Write> {
    inner: W,
    buffer: Vec<u8>,
}

impl<W: Write> ChunkWriter<W> {
    /// A writer of chunks to `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, buffer: Vec::new() }
    }

    fn chunk(&mut self, data: &[u8]) -> io::Result<()> {
        let total = self.buffer.len() + data.len();
        // A chunk of no bytes would end the body.
        if total == 0 {
            return Ok(());
        }
        let mut whole = Vec::with_capacity(total + 12);
        whole.extend_from_slice(format!("{total:x}\r\n").as_bytes());
        whole.append(&mut self.buffer);
        whole.extend_from_slice(data);
        whole.extend_from_slice(b"\r\n");
        self.inner.write_all(&whole)
    }

    /// Writes one chunk with what was collected and `data`, and flushes.
    ///
    /// # Errors
    ///
    /// Those of the writer below.
    pub fn write_chunk(&mut self, data: &[u8]) -> io::Result<()> {
        self.chunk(data)?;
        self.inner.flush()
    }

    /// Writes what was collected and the end of the body (no trailers), and gives the writer below.
    ///
    /// # Errors
    ///
    /// Those of the writer below.
    pub fn finish(mut self) -> io::Result<W> {
        self.chunk(b"")?;
        self.inner.write_all(b"0\r\n\r\n")?;
        self.inner.flush()?;
        Ok(self.inner)
    }
}

impl<W: Write> Write for ChunkWriter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + data.len() < FULL {
            self.buffer.extend_from_slice(data);
        } else {
            self.chunk(data)?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_chunk(b"")
    }
}

/// Why a chunked body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkError {
    /// A size that is no size, or what follows it.
    Size,
    /// A chunk that is longer or shorter than its size says.
    Data,
    /// A trailer that is not a header line.
    Trailer,
    /// Extensions and trailers of more than 16 KiB in all.
    Overhead,
    /// More data than the limit, by the sizes alone: the data need not have come.
    TooLarge,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Size => "bad chunk size",
            Self::Data => "chunk data does not fit its size",
            Self::Trailer => "bad trailer",
            Self::Overhead => "too many chunk extensions or trailers",
            Self::TooLarge => "body too large",
        })
    }
}

impl std::error::Error for ChunkError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    /// White space after a size: only an extension may follow.
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the first byte of a trailer line.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

/// Takes a chunked body apart. Pure: bytes in, slices of them out, nothing is kept but counters.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// Data bytes left in the current chunk.
    left: u64,
    digits: u8,
    /// Data bytes announced so far.
    total: u64,
    limit: u64,
    overhead: usize,
}

/// Bytes of extensions and trailers that one body may carry. They say nothing to us and cost the reader time.
const OVERHEAD: usize = 16 * 1024;

impl Decoder {
    /// A decoder at the beginning of a body of at most `limit` data bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { state: State::Size, left: 0, digits: 0, total: 0, limit, overhead: 0 }
    }

    /// Whether the body is complete, trailers and all.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads on in `input`: how many bytes of it are used up, and the data among them, a slice of at most `most`
    /// bytes that stands at their end. Less than all of `input` is used up where data was found or the body ended.
    ///
    /// # Errors
    ///
    /// When the bytes are no chunked body. The decoder is of no use afterwards.
    pub fn decode<'i>(&mut self, input: &'i [u8], most: usize) -> Result<(usize, &'i [u8]), ChunkError> {
        let mut used = 0;
        while let Some(rest) = input.get(used..)
            && let Some(&byte) = rest.first()
        {
            match self.state {
                State::Done => break,
                State::Data => {
                    let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                    let length = rest.len().min(left).min(most);
                    self.left -= length as u64;
                    if self.left == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok((used + length, rest.get(..length).unwrap_or_default()));
                }
                _ => self.step(byte)?,
            }
            used += 1;
        }
        Ok((used, &[]))
    }

    fn step(&mut self, byte: u8) -> Result<(), ChunkError> {
        use State::{
            Blank, Data, DataCr, DataLf, Done, EndLf, Extension, Size, SizeLf, TrailerLf, TrailerName,
            TrailerStart, TrailerValue,
        };
        self.state = match (self.state, byte) {
            (Size, _) if byte.is_ascii_hexdigit() => self.digit(byte)?,
            (Size, b'\r') if self.digits > 0 => SizeLf,
            (Size | Blank, b';') if self.digits > 0 => Extension,
            (Size | Blank, b' ' | b'\t') if self.digits > 0 => Blank,
            (Extension, b'\r') => SizeLf,
            (Extension, _) if is_text(byte) => Extension,
            (SizeLf, b'\n') => self.sized()?,
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => Size,
            (TrailerStart, b'\r') => EndLf,
            (TrailerStart | TrailerName, _) if is_token(byte) => TrailerName,
            (TrailerName, b':') => TrailerValue,
            (TrailerValue, b'\r') => TrailerLf,
            (TrailerValue, _) if is_text(byte) => TrailerValue,
            (TrailerLf, b'\n') => TrailerStart,
            (EndLf, b'\n') => Done,
            (Size | Blank | Extension | SizeLf, _) => return Err(ChunkError::Size),
            (Data | DataCr | DataLf | Done, _) => return Err(ChunkError::Data),
            (TrailerStart | TrailerName | TrailerValue | TrailerLf | EndLf, _) => {
                return Err(ChunkError::Trailer);
            }
        };
        if matches!(self.state, Blank | Extension | TrailerName | TrailerValue) {
            self.overhead += 1;
            if self.overhead > OVERHEAD {
                return Err(ChunkError::Overhead);
            }
        }
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<State, ChunkError> {
        let digit = char::from(byte).to_digit(16).ok_or(ChunkError::Size)?;
        self.digits += 1;
        // Sixteen digits are all that 64 bits hold. Zeros in front count, so that no line of them is endless.
        if self.digits > 16 {
            return Err(ChunkError::Size);
        }
        self.left = self.left << 4 | u64::from(digit);
        Ok(State::Size)
    }

    fn sized(&mut self) -> Result<State, ChunkError> {
        self.digits = 0;
        if self.left == 0 {
            return Ok(State::TrailerStart);
        }
        self.total = self.total.checked_add(self.left).ok_or(ChunkError::TooLarge)?;
        if self.total > self.limit { Err(ChunkError::TooLarge) } else { Ok(State::Data) }
    }
}

/// A byte that may stand in a field value or a chunk extension: no control character but the tab.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= 0x20 && byte != 0x7f
}

/// A byte of a token (RFC 9110, section 5.6.2).
#[must_use]
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
#[path = "chunked_tests.rs"]
mod tests;
