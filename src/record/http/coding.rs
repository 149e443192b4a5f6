//! Bodies that came compressed although nobody asked for it. They are passed on as they are; for the cassette a copy
//! is decoded.

use std::borrow::Cow;
use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Reads a body in its content coding (RFC 9110, section 8.4.1), as it comes.
#[derive(Debug)]
pub(super) enum Reader {
    /// It is not coded.
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// Whether it has zlib's frame, as it should, or none shows with its first byte.
    Deflate,
    Zlib(ZlibDecoder<Vec<u8>>),
    Bare(DeflateDecoder<Vec<u8>>),
}

impl Reader {
    /// For a body in these codings; `None` where it cannot be read here.
    pub(super) fn of(codings: &[String]) -> Option<Self> {
        match codings {
            [] => Some(Self::Plain),
            [coding] if matches!(coding.as_str(), "gzip" | "x-gzip") => {
                Some(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))))
            }
            [coding] if coding == "deflate" => Some(Self::Deflate),
            _ => None,
        }
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// What the next bytes say, all of it. A byte says a thousand at the most, so what comes of one read is bounded.
    pub(super) fn read<'b>(&mut self, bytes: &'b [u8]) -> io::Result<Cow<'b, [u8]>> {
        if let (Self::Deflate, Some(first)) = (&self, bytes.first()) {
            *self = match first & 0x0f {
                8 => Self::Zlib(ZlibDecoder::new(Vec::new())),
                _ => Self::Bare(DeflateDecoder::new(Vec::new())),
            };
        }
        let said = match self {
            Self::Plain => return Ok(Cow::Borrowed(bytes)),
            Self::Deflate => Vec::new(),
            Self::Gzip(decoder) => {
                write(decoder, bytes)?;
                std::mem::take(decoder.get_mut())
            }
            Self::Zlib(decoder) => {
                write(decoder, bytes)?;
                std::mem::take(decoder.get_mut())
            }
            Self::Bare(decoder) => {
                write(decoder, bytes)?;
                std::mem::take(decoder.get_mut())
            }
        };
        Ok(Cow::Owned(said))
    }

    /// Whether nothing is missing at the end of what was read.
    pub(super) fn is_complete(&mut self) -> bool {
        match self {
            Self::Plain => true,
            Self::Deflate => false,
            Self::Gzip(decoder) => decoder.try_finish().is_ok(),
            Self::Zlib(decoder) => decoder.try_finish().is_ok(),
            Self::Bare(decoder) => decoder.try_finish().is_ok(),
        }
    }
}

fn write(decoder: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    decoder.write_all(bytes)?;
    decoder.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    fn coded(coding: &str, text: &[u8]) -> Vec<u8> {
        let level = Compression::default();
        match coding {
            "gzip" => {
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "zlib" => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            _ => {
                let mut encoder = DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    fn read(name: &str, bytes: &[u8], size: usize) -> io::Result<Vec<u8>> {
        let mut reader = Reader::of(&[name.to_owned()]).unwrap();
        let mut said = Vec::new();
        for piece in bytes.chunks(size) {
            said.extend_from_slice(&reader.read(piece)?);
        }
        if reader.is_complete() { Ok(said) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    #[test]
    fn every_way_to_compress_reads_the_same_wherever_it_is_cut() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for (name, coding) in [("gzip", "gzip"), ("x-gzip", "gzip"), ("deflate", "zlib"), ("deflate", "bare")]
        {
            let coded = coded(coding, &text);
            for size in [1, 7, 4096, coded.len()] {
                assert!(read(name, &coded, size).unwrap() == text, "{coding} {size}");
            }
            // The same text twice in a row is one text with gzip.
            if coding == "gzip" {
                assert_eq!(read(name, &[&*coded, &coded].concat(), 999).unwrap().len(), 2 * text.len());
            }
        }
    }

    #[test]
    fn damage_is_an_error_and_nothing_else() {
        for (name, coding) in [("gzip", "gzip"), ("deflate", "zlib"), ("deflate", "bare")] {
            let whole = coded(coding, &b"x".repeat(3000));
            for at in 0..whole.len() {
                let mut bad = whole.clone();
                bad[at] ^= 0x55;
                for size in [1, bad.len()] {
                    let _ = read(name, &bad, size);
                }
            }
            for short in 0..whole.len() {
                assert!(read(name, &whole[..short], 5).is_err(), "{coding} {short}");
            }
            assert!(read(name, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 9).is_err(), "{coding}");
        }
        for codings in [&["br"][..], &["gzip", "gzip"], &["zstd"]] {
            let codings: Vec<String> = codings.iter().map(ToString::to_string).collect();
            assert!(Reader::of(&codings).is_none(), "{codings:?}");
        }
    }
}
