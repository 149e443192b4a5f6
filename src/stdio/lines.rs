//! Splits a byte stream into lines. A line ends at `\n` and nowhere else: clients send U+2028, U+2029 and U+0085
//! unescaped inside strings, and a lone `\r` is white space of the message.

use memchr::{memchr, memchr_iter};

/// The line that is not complete yet, between two reads.
#[derive(Debug)]
pub struct Lines {
    partial: Vec<u8>,
    /// A line that is longer than this is not gathered any further.
    longest: usize,
    /// What comes belongs to such a line.
    passing: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::up_to(usize::MAX)
    }
}

/// The complete lines at the front of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut<'c> {
    /// The line that began in an earlier chunk and ended in this one, without its `\n`.
    pub carried: Option<Vec<u8>>,
    /// The complete lines after it, each with its `\n`, just as they stand in the chunk.
    pub whole: &'c [u8],
    /// How many lines these are, the carried one included.
    pub count: usize,
    /// The beginning of a line that has become too long; its end comes as part of no line.
    pub too_long: Option<Vec<u8>>,
    /// What was not looked at because `most` was reached; to be cut next. Empty when the chunk is used up.
    pub rest: &'c [u8],
}

impl Lines {
    /// Lines of at most so many bytes; a chunk may be longer.
    #[must_use]
    pub fn up_to(longest: usize) -> Self {
        Self { partial: Vec::new(), longest, passing: false }
    }

    /// Takes at most `most` complete lines off the front of `chunk`. When fewer are in it, what follows the last
    /// `\n` is kept as the beginning of the next line.
    ///
    /// Each byte is looked at once and copied at most once (amortised), so a line of 32 MiB that arrives in small
    /// reads takes linear time. A finished line takes its memory along.
    pub fn cut<'c>(&mut self, chunk: &'c [u8], most: usize) -> Cut<'c> {
        let mut carried = None;
        let mut rest = chunk;
        if self.passing {
            let end = memchr(b'\n', chunk);
            self.passing = end.is_none();
            rest = chunk.split_at(end.map_or(chunk.len(), |end| end + 1)).1;
        }
        if !self.partial.is_empty() {
            let end = memchr(b'\n', rest);
            let (head, tail) = rest.split_at(end.unwrap_or(rest.len()));
            self.partial.extend_from_slice(head);
            if end.is_none() {
                self.passing = self.partial.len() > self.longest;
                let too_long = self.passing.then(|| std::mem::take(&mut self.partial));
                return Cut { carried, whole: &[], count: 0, too_long, rest: &[] };
            }
            carried = Some(std::mem::take(&mut self.partial));
            rest = tail.get(1..).unwrap_or_default();
        }
        let first = usize::from(carried.is_some());
        let room = most.max(1) - first;
        let (mut end, mut count) = (0, 0);
        for at in memchr_iter(b'\n', rest).take(room) {
            end = at + 1;
            count += 1;
        }
        let (whole, mut rest) = rest.split_at(end);
        if count < room {
            self.partial.extend_from_slice(rest);
            rest = &[];
        }
        Cut { carried, whole, count: first + count, too_long: None, rest }
    }

    /// Ends the stream: the last line, when it has no `\n`.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        let last = std::mem::take(&mut self.partial);
        (!last.is_empty()).then_some(last)
    }
}

/// The lines of a piece that ends with `\n`, without their `\n`.
pub fn split(whole: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut from = 0;
    memchr_iter(b'\n', whole).filter_map(move |at| {
        let line = whole.get(from..at);
        from = at + 1;
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn all(stream: &[u8], size: usize) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in stream.chunks(size) {
            let cut = lines.cut(chunk, usize::MAX);
            found.extend(cut.carried.into_iter().chain(split(cut.whole).map(<[u8]>::to_vec)));
        }
        (found, lines.finish())
    }

    #[test]
    fn cuts_at_line_feeds_only_however_the_bytes_arrive() {
        let stream = "{\"a\":1}\r\n\n{\"b\":\"\u{2028}\u{2029}\u{85}\u{c}\u{b}\"}\n\r\u{feff}x\n\u{0}\n last"
            .as_bytes();
        let expected: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
        let (last, whole) = expected.split_last().unwrap();
        for size in 1..=stream.len() {
            let (found, torn) = all(stream, size);
            assert_eq!(found, whole, "in pieces of {size}");
            assert_eq!(torn.as_deref(), Some(*last), "in pieces of {size}");
        }
    }

    #[test]
    fn a_stream_that_ends_with_a_line_feed_has_no_torn_line() {
        assert_eq!(all(b"a\nb\n", 3), (vec![b"a".to_vec(), b"b".to_vec()], None));
        assert_eq!(all(b"", 3), (vec![], None));
    }

    #[test]
    fn cut_stops_at_the_most_and_goes_on_from_there() {
        let mut lines = Lines::default();
        lines.cut(b"he", 2);
        let cut = lines.cut(b"ad\none\ntwo\nthr", 2);
        assert_eq!(cut.carried.as_deref(), Some(&b"head"[..]));
        assert_eq!((cut.whole, cut.count, cut.rest), (&b"one\n"[..], 2, &b"two\nthr"[..]));
        let cut = lines.cut(cut.rest, 2);
        assert_eq!((cut.carried, cut.whole, cut.count, cut.rest), (None, &b"two\n"[..], 1, &b""[..]));
        assert_eq!(lines.finish().as_deref(), Some(&b"thr"[..]));
    }

    #[test]
    fn of_a_line_without_end_the_beginning_is_given_once() {
        for size in 1..=12 {
            let mut lines = Lines::up_to(10);
            let (mut found, mut long) = (Vec::new(), Vec::new());
            for chunk in
                b"one\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\ntwo\n\nyyyyyyyyyy\nthr"
                    .chunks(size)
            {
                let cut = lines.cut(chunk, usize::MAX);
                found.extend(cut.carried.into_iter().chain(split(cut.whole).map(<[u8]>::to_vec)));
                long.extend(cut.too_long);
            }
            assert_eq!(found, [&b"one"[..], b"two", b"", b"yyyyyyyyyy"], "in pieces of {size}");
            assert!(
                long.len() == 1 && long[0].len() > 10 && long[0].iter().all(|byte| *byte == b'x'),
                "{size}"
            );
            assert_eq!(lines.finish().as_deref(), Some(&b"thr"[..]));
        }
    }

    #[test]
    fn a_giant_line_takes_linear_time_and_leaves_no_memory_behind() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 64 * 1024];
        let begun = Instant::now();
        for _ in 0..512 {
            assert_eq!(lines.cut(&chunk, 64).count, 0);
        }
        let cut = lines.cut(b"\n", 64);
        assert_eq!(cut.carried.map(|line| line.len()), Some(32 << 20));
        assert!(begun.elapsed() < Duration::from_secs(2));
        assert_eq!(lines.partial.capacity(), 0);
    }
}
