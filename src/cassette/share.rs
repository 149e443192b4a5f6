//! Work that is shared among the cores.

use std::panic::resume_unwind;
use std::thread;

/// Does some work on a list, on up to eight threads when there is `much` of it, and returns what came of each share in
/// order; nothing for an empty list.
pub fn share<I: Sync, T: Send>(items: &[I], much: bool, work: impl Fn(&[I]) -> T + Sync) -> Vec<T> {
    let workers = if much { thread::available_parallelism().map_or(1, usize::from).min(8) } else { 1 };
    let mut shares = items.chunks(items.len().div_ceil(workers).max(1));
    // The first share is this thread's own.
    let Some(first) = shares.next() else { return Vec::new() };
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = shares
            .map(|share| (share, thread::Builder::new().spawn_scoped(scope, move || work(share))))
            .collect();
        let mut done = vec![work(first)];
        for (share, other) in others {
            done.push(match other {
                Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // There may be no more threads than there are.
                Err(_) => work(share),
            });
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_once_and_in_order() {
        for length in [0, 1, 2, 7, 8, 9, 1000] {
            let items: Vec<usize> = (0..length).collect();
            for much in [false, true] {
                let shares = share(&items, much, <[usize]>::to_vec);
                assert_eq!(shares.concat(), items, "{length}");
            }
        }
    }
}
