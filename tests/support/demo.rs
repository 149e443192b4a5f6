//! The demo server over HTTP, recorded and replayed.

use super::Sandbox;
use super::web::Endpoint;

impl Sandbox {
    /// A session with the demo server through a recorder, all over HTTP, into `c.json`.
    #[track_caller]
    pub fn record_demo_http<T>(&self, session: impl FnOnce(&Endpoint) -> T) -> T {
        let server = self.listen(["demo", "server", "--listen", "127.0.0.1:0"]);
        let url = format!("http://{}{}", server.host, server.path);
        let recorder =
            self.listen(["record", "-q", "--cassette", "c.json", "--server", "demo", "--url", &url]);
        let got = session(&recorder);
        recorder.end(0);
        server.end(0);
        got
    }

    /// The same session again with the cassette: it is to give the same.
    #[track_caller]
    pub fn twice<T: PartialEq + std::fmt::Debug>(
        &self,
        options: &[&str],
        session: impl Fn(&Endpoint) -> T,
    ) -> T {
        let recorded = self.record_demo_http(&session);
        let replay = self.replay_http(options);
        assert_eq!(session(&replay), recorded);
        replay.end(0);
        recorded
    }

    /// Serves `c.json` over HTTP.
    #[track_caller]
    pub fn replay_http(&self, options: &[&str]) -> Endpoint {
        self.listen(["serve", "c.json"].iter().chain(options).copied())
    }
}
