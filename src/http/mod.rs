//! HTTP/1.1 for MCP's transports: a listener of our own, a client on top of ureq, and the two formats between them,
//! server-sent events and the chunked coding. Nothing in here knows MCP or JSON.
//!
//! `server/head.rs` is the only file that names httparse, `client.rs` the only one that names ureq, with `failure.rs`
//! and `patience.rs`, which are parts of it.

pub mod chunked;
pub mod client;
mod failure;
pub mod guard;
mod handshake;
pub mod headers;
pub mod idle;
mod patience;
pub mod server;
pub mod sse;

pub use headers::Headers;

#[cfg(test)]
mod proxy_tests;
