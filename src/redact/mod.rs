//! Keeps secrets out of cassettes: finds the values that rules name, and puts placeholders in their place.
//!
//! The recorder runs a [`Redactor`] over a copy of each message; replay builds the same [`Rules`] from the
//! cassette's [`Manifest`] and asks them for [`Treatments`], under which a redacted value equals any live one.
//!
//! A rule is a glob over member names or a JSON pointer. `walk` decides which values of one JSON text a rule covers
//! (that is where the protocol's own fields are spared), `nested` opens strings that hold JSON, form bodies or URLs
//! and maps what is found back to the bytes of the message, and everything else is a consumer of the two. Rules of
//! other kinds add to what they find; they need no other machinery.
//!
//! Values that route a message always stay, whatever a rule says: `jsonrpc`, `id`, `method`, `error.code`, the
//! names, URIs, types and cursors of the protocol itself (not members of `arguments` and other user data that are
//! called alike), and everything MCP reserves in `_meta`.

mod blocks;
mod compared;
mod detect;
mod document;
mod echo;
mod encoded;
mod forms;
mod glance;
mod key;
mod known;
mod layouts;
mod literal;
mod look;
mod manifest;
mod markup;
mod names;
mod nested;
mod overlap;
mod pack;
mod pairs;
mod placeholder;
mod plain;
mod prefilter;
mod prose;
mod quotes;
mod redactor;
mod reference;
mod roles;
mod rules;
mod schema;
mod sieve;
mod spelled;
mod stems;
mod tables;
mod torn;
mod treatments;
mod triggers;
mod validate;
mod versions;
mod walk;
mod written;

pub use document::{Encoding, Hit};
pub use known::SHORTEST;
pub use manifest::{Manifest, Pack};
pub use pack::TextPack;
pub use placeholder::{Numbers, is_placeholder};
pub use redactor::{Redacted, Redactor, Side};
pub use rules::{KNOWN, Options, Rules};
pub use spelled::fit_whole;
pub use treatments::{ANY, Cover, Treatments, distance, fit};
pub use written::{Steps, Written, noted};

#[cfg(test)]
mod tests;
