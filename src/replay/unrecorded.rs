//! Answers to requests that nobody recorded but clients send all the same: probes, pings, lists, subscriptions. They are
//! given at once, so that a client falls back within milliseconds instead of waiting for its timeout.

use super::choose::Why;
use super::live;
use super::player::{Output, Part, Player, Request};
use crate::cassette::Side;
use crate::jsonrpc::message::{member, member_at};
use crate::jsonrpc::string;
use crate::mcp::{self, Era, code};

impl Player {
    /// A modern request in a revision that was not recorded is refused, or asked of the live server, where there is one.
    pub(super) fn is_of_another_revision(&mut self, request: &Request<'_>) -> bool {
        if request.era != Era::Modern || self.tape.modern_versions.is_empty() {
            return false;
        }
        let asked = mcp::version(request.text, &request.view).unwrap_or_default();
        if self.tape.modern_versions.contains(&asked) {
            return false;
        }
        if self.has_live_server() && !self.is_known_probe(request) {
            if let Err(why) = self.pass_on(request, Why::Unknown) {
                self.miss(request, why);
            }
            return true;
        }
        self.count_unrecorded(self.subject(request).to_string());
        let error = self.unsupported_version(request.id, &asked);
        self.answer(request.to(), Part::Made, error);
        true
    }

    fn unsupported_version(&self, id: &str, asked: &str) -> String {
        let supported: Vec<String> =
            self.tape.modern_versions.iter().map(|version| string::encode(version)).collect();
        let asked = self.rules.told(asked);
        let data =
            format!("{{\"supported\":[{}],\"requested\":{}}}", supported.join(","), string::encode(&asked));
        let message = format!("unsupported protocol version {asked}");
        live::error(id, code::UNSUPPORTED_VERSION, &message, Some(&data))
    }

    /// Answers a request that was not recorded the way its sender can go on with. `false`: it is a miss.
    pub(super) fn answer_by_rule(&mut self, request: &Request<'_>, now: u64) -> bool {
        let modern = !self.tape.modern_versions.is_empty();
        let method = request.method.as_str();
        let not_found = |what: &str| live::error(request.id, code::METHOD_NOT_FOUND, what, None);
        let line = match method {
            "server/discover" if modern => live::result(request.id, &self.discovery()),
            "initialize" if !self.tape.legacy && modern => {
                let asked =
                    request.view.params.and_then(|params| member(request.text, params, "protocolVersion"));
                let asked = asked.map(|span| string::decode(span.of(request.text)).into_owned());
                self.unsupported_version(request.id, &asked.unwrap_or_default())
            }
            "server/discover" => not_found("Method not found"),
            // Only the probe is a question that a legacy server may not know. Who goes on without asking means it.
            _ if request.era == Era::Modern && !modern => return false,
            "logging/setLevel" if self.tape.declares(&["logging"]) => live::result(request.id, "{}"),
            "resources/subscribe" | "resources/unsubscribe" if self.tape.declares(&["resources"]) => {
                live::result(request.id, "{}")
            }
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                not_found("Method not found")
            }
            "subscriptions/listen" => {
                self.count_unrecorded(self.subject(request).to_string());
                let id = request.id;
                let meta = format!("\"_meta\":{{\"{}\":{id}}}", mcp::SUBSCRIPTION);
                let text = format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{{{meta},\"notifications\":{{}}}}}}"
                );
                self.begin(request.carrier, None, |_| {});
                let (session, carrier, part) = (request.session, Some(request.carrier), Part::Inner);
                self.out.push(Output::Message { session, carrier, text, part, alone: false });
                self.start(request, None, false, now);
                return true;
            }
            "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update" => {
                live::error(request.id, code::INVALID_PARAMS, "unknown task", None)
            }
            _ if mcp::is_list(method) => {
                let declared = mcp::server_capability(method)
                    .is_some_and(|capability| self.tape.declares(&[capability]));
                // What was asked for when recorded, on another page, is known to exist.
                if declared || !self.index.all(method).is_empty() {
                    return false;
                }
                not_found("Method not found")
            }
            _ => return false,
        };
        self.count_unrecorded(self.subject(request).to_string());
        self.answer(request.to(), Part::Made, line);
        true
    }

    /// A `server/discover` result for a cassette that has modern traffic but no discovery (a client with a pinned
    /// revision asks for none).
    fn discovery(&self) -> String {
        let versions: Vec<String> =
            self.tape.modern_versions.iter().map(|version| string::encode(version)).collect();
        let capabilities = self.tape.capabilities.first().map(|span| span.of(&self.tape.text).to_owned());
        let capabilities = capabilities.unwrap_or_else(|| {
            let methods = self.tape.exchanges.iter().filter_map(|exchange| self.tape.item(exchange.request));
            let mut names: Vec<&str> = methods
                .filter_map(|item| mcp::server_capability(&item.view.method_name(&self.tape.text)))
                .collect();
            names.sort_unstable();
            names.dedup();
            let names: Vec<String> = names.iter().map(|name| format!("\"{name}\":{{}}")).collect();
            format!("{{{}}}", names.join(","))
        });
        let info = self
            .tape
            .items
            .iter()
            .filter(|item| item.from == Side::Server)
            .find_map(|item| member_at(&self.tape.text, item.view.result?, &["_meta", mcp::SERVER_INFO]));
        let info =
            info.map(|info| format!(",\"_meta\":{{\"{}\":{}}}", mcp::SERVER_INFO, info.of(&self.tape.text)));
        let result = format!(
            "{{\"resultType\":\"complete\",\"supportedVersions\":[{}],\"capabilities\":{capabilities},\"ttlMs\":0,\"cacheScope\":\"private\"{}}}",
            versions.join(","),
            info.unwrap_or_default()
        );
        crate::jsonrpc::pretty::packed(&result)
    }
}
