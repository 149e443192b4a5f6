//! The built-in demo server: a real MCP server that needs no credentials and no network.
//!
//! `mcpreel demo` offers it for a first try, and the tests of every other part record and replay it. It speaks all
//! revisions, legacy (`initialize`, 2024-11-05 to 2025-11-25) and modern (2026-07-28), at once, and its tools cover
//! what a session can hold: progress, logs, errors, big and odd texts, requests to the client, multi-round answers,
//! tasks, notifications nobody asked for, noise. Two runs with the same input give the same answers, task dates apart.
//!
//! The core knows no transport: a `session` takes one parsed message and a `sink` for what that message leads
//! to. `stdio` puts it behind a pair of pipes, [`http`] behind an endpoint.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all handlers share one signature, also those that cannot fail"
)]

mod call;
pub mod http;
mod inputs;
mod interactive;
mod listen;
mod prompts;
mod resources;
pub mod server;
mod session;
mod sink;
mod stdio;
mod tasks;
#[cfg(test)]
mod tests;
mod toolbox;
mod tools;
pub mod tour;
mod wire;
