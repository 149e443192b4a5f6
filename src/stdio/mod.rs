//! Pipes, child processes and signals: what a session over standard input and output stands on.
//!
//! Everything that differs between Linux, other Unixes and Windows is in here, behind `cfg`.

pub mod child;
pub mod ends;
pub mod exec;
pub mod lines;
pub mod signals;
pub mod tree;
