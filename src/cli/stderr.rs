//! What is said on standard error. A thread of its own says it, so that a client that does not read our standard error
//! (it is often a pipe, and often forgotten) stops neither a session nor its end.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};

use crate::stdio::ends::Output;

/// How much may wait to be said; what comes on top of that is counted and left out.
const MOST: usize = 16 << 20;
/// How long the end of the program waits for the last words to be taken.
const PATIENCE: Duration = Duration::from_millis(250);

enum Word {
    Line(Vec<u8>),
    Told(Sender<()>),
}

static WAITING: AtomicUsize = AtomicUsize::new(0);
static LEFT_OUT: AtomicUsize = AtomicUsize::new(0);

fn speaker() -> &'static Sender<Word> {
    static SPEAKER: OnceLock<Sender<Word>> = OnceLock::new();
    SPEAKER.get_or_init(|| {
        let (sender, words) = unbounded();
        let speak = move || {
            let errors = Output::errors().map(|errors| Box::new(errors) as Box<dyn Write>);
            let mut errors = errors.unwrap_or_else(|_| Box::new(std::io::stderr()));
            for word in words {
                match word {
                    Word::Line(line) => {
                        let _ = errors.write_all(&line);
                        WAITING.fetch_sub(line.len(), Ordering::Relaxed);
                        let left_out = LEFT_OUT.swap(0, Ordering::Relaxed);
                        if left_out > 0 {
                            let note = format!("mcpreel: {left_out} lines were left out: nobody read them\n");
                            let _ = errors.write_all(note.as_bytes());
                        }
                    }
                    Word::Told(told) => {
                        let _ = told.send(());
                    }
                }
            }
        };
        // Without a thread there is nobody to speak; the session goes first.
        let _ = thread::Builder::new().name("stderr".to_owned()).spawn(speak);
        sender
    })
}

/// Says one or more whole lines, in order, without waiting for anyone.
pub(super) fn write(text: &str) {
    let text = super::redaction::sayable(text).into_owned();
    if WAITING.load(Ordering::Relaxed) > MOST {
        LEFT_OUT.fetch_add(1, Ordering::Relaxed);
        return;
    }
    WAITING.fetch_add(text.len(), Ordering::Relaxed);
    let _ = speaker().send(Word::Line(text.into_bytes()));
}

/// Waits until all is said, but not for long.
pub(super) fn finish() {
    let (told, all) = bounded(1);
    let _ = speaker().send(Word::Told(told));
    let _ = all.recv_timeout(PATIENCE);
}
