//! Several recordings of the same thing as one cassette: the segments of a recording, the journals in a file, a cassette
//! and what was recorded later. Each counts its times from its own beginning, and its sessions and exchanges from 1.

use std::collections::HashMap;

use super::head::{Head, Server};
use super::model::{Cassette, Timing};
use super::record::Record;
use super::{clock, manifest};

/// Recordings that become one cassette.
#[derive(Debug, Default)]
pub struct Series {
    /// What they come to so far; the times of its records still count from the beginning of their own recording.
    whole: Cassette,
    /// The places of the servers, by name.
    places: HashMap<String, u32>,
    /// The highest session and exchange of each server, in the first [`Series::counted`] records.
    highest: Vec<(u32, u32)>,
    counted: usize,
    /// Where the records of a recording begin, and when it began, in microseconds since 1970.
    starts: Vec<(usize, Option<i64>)>,
    begun: bool,
}

impl Series {
    /// Begins with a cassette.
    #[must_use]
    pub fn onto(first: Cassette) -> Self {
        let mut series = Self::default();
        series.add(first);
        series
    }

    /// Adds a recording. Its records go behind those of the same time that are already here.
    pub fn add(&mut self, next: Cassette) {
        let Cassette { head, text, records, timing, warnings } = next;
        let start = clock::parse(&head.recorded_at);
        let first = !std::mem::replace(&mut self.begun, true);
        if first {
            self.whole.timing = timing;
        } else if !records.is_empty() {
            self.whole.timing = match self.starts.as_slice() {
                [] => timing,
                // Times that count from nobody knows when put nothing in order.
                [.., (_, Some(_))]
                    if start.is_some() && [self.whole.timing, timing] == [Timing::Known; 2] =>
                {
                    Timing::Known
                }
                _ => Timing::Absent,
            };
        }
        if !records.is_empty() {
            self.starts.push((self.whole.records.len(), start));
        }
        self.count();
        let places = self.unite(head, start, first);
        self.whole.warnings.extend(warnings);
        let offset = self.whole.text.len();
        if offset == 0 {
            self.whole.text = text;
        } else {
            self.whole.text.push_str(&text);
        }
        // Most cassettes are one recording, and those may be large.
        if first && places.iter().zip(0..).all(|(place, own)| *place == own) {
            self.whole.records = records;
            return;
        }
        let highest = &self.highest;
        self.whole.records.extend(records.into_iter().map(|mut record| {
            let server =
                usize::try_from(record.server).ok().and_then(|own| places.get(own)).copied().unwrap_or(0);
            let taken = usize::try_from(server).ok().and_then(|place| highest.get(place)).copied();
            let (session, exchange) = taken.unwrap_or_default();
            record.server = server;
            record.shift(offset);
            for (number, taken) in [(&mut record.session, session), (&mut record.exchange, exchange)] {
                if *number > 0 {
                    *number = number.saturating_add(taken);
                }
            }
            record
        }));
    }

    /// The cassette.
    #[must_use]
    pub fn finish(self) -> Cassette {
        let Self { mut whole, starts, .. } = self;
        let began = clock::parse(&whole.head.recorded_at);
        let ends = starts.iter().skip(1).map(|(from, _)| *from).chain([whole.records.len()]);
        for ((from, start), end) in starts.iter().zip(ends) {
            let delay = start.zip(began).map_or(0, |(start, began)| start.saturating_sub(began));
            let delay = u64::try_from(delay).unwrap_or(0);
            let records = whole.records.get_mut(*from..end).filter(|_| delay > 0);
            for record in records.unwrap_or_default() {
                record.at = record.at.saturating_add(delay);
            }
        }
        if whole.timing == Timing::Known {
            whole.records.sort_by_key(|record| record.at);
        }
        whole
    }

    /// Takes note of the sessions and exchanges of records that were added.
    fn count(&mut self) {
        let records: &[Record] = self.whole.records.get(self.counted..).unwrap_or_default();
        for record in records {
            let place = usize::try_from(record.server).ok();
            if let Some((session, exchange)) = place.and_then(|place| self.highest.get_mut(place)) {
                *session = record.session.max(*session);
                *exchange = record.exchange.max(*exchange);
            }
        }
        self.counted = self.whole.records.len();
    }

    /// Unites the heads, and gives where the servers of the added one are now.
    fn unite(&mut self, head: Head, start: Option<i64>, first: bool) -> Vec<u32> {
        let mine = &mut self.whole.head;
        let is_earlier =
            clock::parse(&mine.recorded_at).zip(start).is_some_and(|(mine, theirs)| theirs < mine);
        if first {
            mine.recorder = head.recorder;
        }
        if mine.recorded_at.is_empty() || is_earlier {
            mine.recorded_at = head.recorded_at;
        }
        mine.processes.extend(head.processes);
        let apart = manifest::are_numbered(mine.redaction.as_deref(), head.redaction.as_deref());
        mine.redaction = match (mine.redaction.take(), head.redaction) {
            (Some(mine), Some(theirs)) => Some(manifest::merged(&mine, &theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        for (slot, value) in [(&mut mine.labels, head.labels), (&mut mine.matching, head.matching)] {
            if slot.is_none() {
                *slot = value;
            }
        }
        for field in head.extra {
            if !mine.extra.iter().any(|(name, _)| *name == field.0) {
                mine.extra.push(field);
            }
        }
        head.servers.into_iter().map(|(name, server)| self.add_server(name, server, apart)).collect()
    }

    /// Adds a server; `apart`: the placeholders of what was added before say nothing of its own.
    fn add_server(&mut self, name: String, server: Server, apart: bool) -> u32 {
        let servers = &mut self.whole.head.servers;
        let next = u32::try_from(servers.len()).unwrap_or(0);
        let place = *self.places.entry(name.clone()).or_insert(next);
        match usize::try_from(place).ok().and_then(|place| servers.get_mut(place)) {
            None => {
                servers.push((name, server));
                self.highest.push((0, 0));
            }
            Some((_, mine)) if *mine == Server::default() => *mine = server,
            Some((_, mine)) => {
                let taken = usize::try_from(place).ok().and_then(|place| self.highest.get(place));
                let taken = taken.map_or(0, |(_, exchange)| *exchange);
                let further = (apart && taken > 0).then_some(1).into_iter().chain(server.recordings);
                mine.recordings.extend(further.map(|exchange| exchange.saturating_add(taken)));
                for revision in server.protocol {
                    if !mine.protocol.contains(&revision) {
                        mine.protocol.push(revision);
                    }
                }
                mine.info = mine.info.take().or(server.info);
            }
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A recording of one server with a message at each of these milliseconds.
    fn recording(second: u32, server: &str, times: &[u32]) -> Cassette {
        let messages: Vec<String> = times
            .iter()
            .map(|at| format!(r#"{{"from":"server","session":1,"exchange":2,"payload":{{"at":{at}}}}}"#))
            .collect();
        let times: Vec<String> = times.iter().map(u32::to_string).collect();
        let text = format!(
            r#"{{"mcpreel":1,"recorded_at":"2026-11-29T20:33:{second:02}.000Z","servers":{{"{server}":{{"transport":"http"}}}},"messages":[{}],"timing_ms":[{}]}}"#,
            messages.join(","),
            times.join(",")
        );
        Cassette::parse(Path::new("c.json"), text.into_bytes()).unwrap()
    }

    fn untimed(second: u32, server: &str, times: &[u32]) -> Cassette {
        Cassette { timing: Timing::Absent, ..recording(second, server, times) }
    }

    fn joined(recordings: Vec<Cassette>) -> Cassette {
        let mut series = Series::default();
        recordings.into_iter().for_each(|recording| series.add(recording));
        series.finish()
    }

    /// Messages as `server session/exchange payload`.
    fn messages(cassette: &Cassette) -> Vec<String> {
        let line = |record: &Record| {
            let payload = cassette.payload(record).unwrap();
            format!("{} {}/{} {payload}", cassette.server_name(record), record.session, record.exchange)
        };
        cassette.records.iter().map(line).collect()
    }

    #[test]
    fn times_count_from_the_earliest_in_whatever_order_they_come() {
        let expected = [
            r#"b 1/2 {"at":500}"#,
            r#"a 1/2 {"at":0}"#,
            r#"c 1/2 {"at":1}"#,
            r#"b 1/2 {"at":2650}"#,
            r#"a 1/2 {"at":1700}"#,
        ];
        let (a, b, c) =
            (recording(11, "a", &[0, 1700]), recording(10, "b", &[500, 2650]), recording(11, "c", &[1]));
        for order in [vec![&a, &b, &c], vec![&b, &c, &a], vec![&c, &a, &b]] {
            let whole = joined(order.into_iter().cloned().collect());
            assert_eq!(messages(&whole), expected);
            assert_eq!(whole.head.recorded_at, "2026-11-29T20:33:10.000Z");
            let times: Vec<u64> = whole.records.iter().map(|record| record.at).collect();
            assert_eq!(times, [500_000, 1_000_000, 1_001_000, 2_650_000, 2_700_000]);
        }
    }

    #[test]
    fn a_server_that_was_recorded_before_goes_on_counting() {
        let whole = joined(vec![
            recording(10, "a", &[1]),
            recording(11, "b", &[2]),
            recording(12, "a", &[3]),
            recording(13, "a", &[4]),
        ]);
        assert_eq!(
            messages(&whole),
            [r#"a 1/2 {"at":1}"#, r#"b 1/2 {"at":2}"#, r#"a 2/4 {"at":3}"#, r#"a 3/6 {"at":4}"#]
        );
        assert_eq!(whole.head.names(), ["a", "b"]);
    }

    #[test]
    fn where_numbers_of_placeholders_begin_anew_is_known() {
        let redacted = |manifest: &str, count: u32| {
            let mut recording = recording(10 + count, "a", &[1]);
            recording.head.redaction = Some(manifest.to_owned());
            recording
        };
        let (some, none) = (r#"{"counts":{"r":1}}"#, r#"{"rules":["r"]}"#);
        let salted = r#"{"salt":"env","counts":{"r":1}}"#;
        for (manifests, recordings) in [
            ([some, some, some], &[3, 5][..]),
            ([some, none, some], &[5]),
            ([none, some, none], &[]),
            ([salted, salted, salted], &[]),
            ([salted, salted, some], &[5]),
        ] {
            let whole = joined(manifests.iter().zip(0..).map(|(it, count)| redacted(it, count)).collect());
            assert_eq!(whole.head.servers[0].1.recordings, recordings, "{manifests:?}");
        }
    }

    #[test]
    fn without_all_times_they_follow_each_other() {
        let mut nowhen = recording(10, "b", &[1]);
        nowhen.head.recorded_at.clear();
        for (second, third) in [
            (untimed(10, "b", &[1]), recording(10, "c", &[2])),
            (recording(10, "b", &[1]), untimed(10, "c", &[2])),
            (nowhen, recording(10, "c", &[2])),
        ] {
            let whole = joined(vec![recording(20, "a", &[9]), second, third]);
            assert_eq!(messages(&whole), [r#"a 1/2 {"at":9}"#, r#"b 1/2 {"at":1}"#, r#"c 1/2 {"at":2}"#]);
            assert_eq!(whole.timing, Timing::Absent);
        }
    }

    #[test]
    fn what_holds_no_message_says_nothing_about_times() {
        let whole = joined(vec![recording(12, "a", &[]), recording(10, "a", &[5]), untimed(11, "b", &[])]);
        assert_eq!((whole.timing, messages(&whole)), (Timing::Known, vec![r#"a 1/2 {"at":5}"#.to_owned()]));
        assert_eq!(joined(vec![untimed(10, "a", &[])]).timing, Timing::Absent);
        let mut nowhen = recording(13, "b", &[]);
        nowhen.head.recorded_at.clear();
        let whole = joined(vec![nowhen, recording(12, "a", &[1]), recording(10, "a", &[5])]);
        assert_eq!(messages(&whole), [r#"a 2/4 {"at":5}"#, r#"a 1/2 {"at":1}"#]);
        assert_eq!(whole.head.recorded_at, "2026-11-29T20:33:10.000Z");
        assert_eq!(joined(Vec::new()).head.recorded_at, "");
    }
}
