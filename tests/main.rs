//! Tests of the real binary over real pipes. Each module is a feature; names that start with `rNNN` are requirements.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::must_use_candidate,
    clippy::should_panic_without_expect,
    clippy::format_collect,
    reason = "a test that cannot go on should say so and stop"
)]

mod architecture;
mod bad_places;
mod demo_http;
mod demo_tour;
mod docs;
mod episodes;
mod episodes_ends;
mod episodes_http;
mod episodes_sides;
mod faults_http;
mod faults_overlay;
mod faults_stdio;
mod first_light;
mod foreign;
mod format;
mod format_frozen;
mod init;
mod json_texts;
mod library;
mod many_servers;
mod merge;
mod owners;
mod pacing;
mod pipes;
mod probe;
mod ready_file;
mod record_bytes;
mod record_crash;
mod record_endings;
mod record_files;
mod record_http;
mod record_http_bodies;
mod record_http_coding;
mod record_http_connections;
mod record_http_ends;
mod record_http_held;
mod record_http_odd;
mod record_http_streams;
mod record_http_tls;
mod record_http_wire;
mod record_killed;
mod record_leftovers;
mod record_many;
mod record_redaction;
mod redact_command;
mod redaction_corpus;
mod redaction_everywhere;
mod redaction_options;
mod redaction_sessions;
mod replay_batches;
mod replay_bounds;
mod replay_classes;
mod replay_endings;
mod replay_hostile;
mod replay_ids;
mod replay_interaction;
mod replay_listen;
mod replay_look_alikes;
mod replay_matching;
mod replay_negotiation;
mod replay_odd_lines;
mod replay_redacted;
mod replay_redacted_again;
mod replay_rounds;
mod replay_sessions;
mod replay_tasks;
mod replay_writes;
mod report;
mod report_failed;
mod run;
mod run_urls;
mod serve_exact;
mod serve_legacy;
mod serve_modern;
mod serve_parameters;
mod serve_paths;
mod serve_recorded;
mod serve_refused;
mod serve_rounds;
mod serve_tasks;
mod sessions;
mod settings;
mod split_trim;
mod stalled_disk;
#[allow(dead_code, reason = "each module uses its part")]
mod support;
mod wire;
