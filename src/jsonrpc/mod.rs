//! JSON and JSON-RPC as text. Nothing in here knows MCP, and nothing builds values: a message is the text that was
//! received, and everything else is a span in it. That is what keeps 24-digit integers, `1E400`, lone surrogates,
//! duplicate keys and any nesting depth exactly as they came.

pub mod canonical;
pub mod edit;
pub mod lexer;
pub mod message;
pub mod pointer;
pub mod pretty;
pub mod scan;
pub mod string;
pub mod tree;
