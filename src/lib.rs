//! Records a session between an AI agent and its MCP servers into a text *cassette*, and plays it back later
//! with no server, no credentials and no network.
//!
//! Rust tests use it by [`use_cassette`]; any other program by the binary `mcpreel`. What the modules below have is there
//! for the binary and changes with it.
//!
//! The binary is a thin shell around this crate. Data goes one way through the modules:
//! `library -> cli -> door, demo, helpers -> record, replay -> stdio, http, cassette, redact -> mcp -> jsonrpc -> error`.

pub mod cassette;
pub mod cli;
pub mod demo;
pub mod door;
pub mod error;
pub mod exit;
pub mod helpers;
pub mod http;
pub mod jsonrpc;
mod library;
pub mod mcp;
pub mod record;
pub mod redact;
pub mod replay;
pub mod stdio;

pub use door::Mode;
pub use library::{Finished, UseCassette, use_cassette};
