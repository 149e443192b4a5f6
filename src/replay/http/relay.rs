//! What a live server has besides its endpoint goes there and back: descriptions of how to sign in, mostly.

use std::io::{self, Read as _};

use super::behind::{LiveServer, is};
use crate::http::Headers;
use crate::http::server::Request;

/// A longer body is passed on as it is, and no address in it is made local.
const LARGEST_TEXT: u64 = 1 << 20;
/// One read from the server.
const BUFFER: usize = 16 << 10;

/// Passes a request on, and its answer back.
pub(super) fn relay(live: &LiveServer, mut request: Request<'_>, common: &Headers) -> io::Result<()> {
    let body = match request.read_body() {
        Ok(body) => body,
        Err(refusal) => {
            request.refuse(refusal);
            return Ok(());
        }
    };
    let host = request.headers().text("host").unwrap_or_default().to_owned();
    let target = request.target().strip_prefix(&live.own_prefix).unwrap_or_default();
    let target = format!("{}{target}", live.prefix);
    let mut fields = request.headers().clone();
    // Who may come was decided here.
    ["origin", "content-length"].iter().for_each(|name| fields.remove(name));
    let has_body = !body.is_empty() || request.headers().get("content-length").is_some();
    let sending = live.upstream.lane().exchange();
    let cancel = sending.canceller();
    let _watch = request.watch(move || cancel.cancel());
    let Ok(mut response) = sending.send(request.method(), &target, &fields, has_body.then_some(&body[..]))
    else {
        return request.respond(502, common, b"the live server cannot be reached\n");
    };
    if is(&response.headers, "text/event-stream") {
        // An endpoint of another kind (HTTP+SSE): what comes on it would be neither looked up nor handed to the player.
        return request.respond(404, common, b"only the endpoint of the URL is answered here\n");
    }
    let mut headers = common.clone();
    for (name, value) in response.headers.iter() {
        match std::str::from_utf8(value) {
            Ok(text) => headers.push(name, live.localized(text, &host)),
            Err(_) => headers.push(name, value),
        }
    }
    let mut text = Vec::new();
    let read = (&mut response.body).take(LARGEST_TEXT).read_to_end(&mut text);
    if read.is_err() {
        request.close();
        return Ok(());
    }
    if (text.len() as u64) < LARGEST_TEXT {
        let text = match String::from_utf8(text) {
            Ok(text) => live.localized(&text, &host).into_bytes(),
            Err(error) => error.into_bytes(),
        };
        headers.remove("content-length");
        return request.respond(response.status, &headers, &text);
    }
    let mut out = request.into_writer(response.status, &headers, response.length)?;
    out.send(&text)?;
    let mut buffer = vec![0; BUFFER];
    loop {
        match response.body.read(&mut buffer) {
            Ok(0) => return out.finish(),
            Ok(length) => out.send(buffer.get(..length).unwrap_or_default())?,
            // Dropped unfinished, it cuts the client off as we were.
            Err(_) => return Ok(()),
        }
    }
}
