//! Why a request got no answer, told from what ureq says.

use std::fmt;
use std::io;

use super::client::LARGEST_HEAD;
use super::handshake;

/// Why there is no answer.
#[derive(Debug)]
pub enum SendError {
    /// The request cannot be written as it is: its method, target or a field. The client's fault.
    Request(String),
    /// No connection: the server has seen nothing of the request.
    Unreachable(String),
    /// The connection broke before the head of an answer came. The request may have been carried out.
    Broken(String),
    /// An answer began whose head cannot be read, or passed on.
    Unreadable(String),
    /// `Cancel::cancel` was called.
    Cancelled,
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(why) => write!(out, "the request cannot be sent on: {why}"),
            Self::Unreachable(why) => write!(out, "the server cannot be reached: {why}"),
            Self::Broken(why) => write!(out, "the server broke off: {why}"),
            Self::Unreadable(why) => write!(out, "the head of the server's answer cannot be read: {why}"),
            Self::Cancelled => out.write_str("the request was cancelled"),
        }
    }
}

impl std::error::Error for SendError {}

/// An error of ureq, by where it comes from.
pub(super) enum Failure {
    Request(ureq::http::Error),
    Send(ureq::Error),
}

impl From<Failure> for SendError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Request(error) => Self::Request(error.to_string()),
            Failure::Send(error) if is_unreachable(&error) => {
                Self::Unreachable(handshake::explain(&error.to_string()))
            }
            Failure::Send(ureq::Error::LargeResponseHeader(..)) => {
                Self::Unreadable(format!("it is larger than {} KiB", LARGEST_HEAD >> 10))
            }
            Failure::Send(ureq::Error::Protocol(error)) => match error.to_string() {
                why if why.contains("too many headers") => {
                    Self::Unreadable("it has more than 128 fields".to_owned())
                }
                why if is_about_answer(&why) => {
                    Self::Unreadable(why.trim_start_matches("http parse fail: ").to_owned())
                }
                why => Self::Request(why),
            },
            Failure::Send(error @ (ureq::Error::BadUri(_) | ureq::Error::Http(_))) => {
                Self::Request(error.to_string())
            }
            Failure::Send(error) => Self::Broken(error.to_string()),
        }
    }
}

/// Whether nothing of the request can have reached the server.
pub(super) fn is_unreachable(error: &ureq::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::InvalidProxyUrl
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => true,
        ureq::Error::Io(error) => {
            matches!(
                error.kind(),
                ConnectionRefused | HostUnreachable | NetworkUnreachable | AddrNotAvailable
            ) || is_tls(error)
                || is_failed_lookup(error)
        }
        _ => false,
    }
}

/// Whether an error is about the head of an answer, by its words: its type is not for us to name.
fn is_about_answer(why: &str) -> bool {
    ["http parse", "content-length header", "http version", "received headers"]
        .iter()
        .any(|words| why.contains(words))
}

/// Whether the name has no address, or nobody could be asked for it.
pub(super) fn is_lookup(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound => true,
        ureq::Error::Io(error) => is_failed_lookup(error),
        _ => false,
    }
}

/// The standard library gives such an error neither a kind nor a number that could be asked for.
fn is_failed_lookup(error: &io::Error) -> bool {
    error.to_string().starts_with("failed to lookup address")
}

/// A failed handshake comes as an I/O error around one of rustls.
fn is_tls(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}
