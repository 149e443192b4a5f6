//! Client driver on rmcp: runs scripted sessions and prints what its user sees, one JSON object a line.
//! Command line: client [--mode legacy|auto|pinned] SESSION... -- SERVER...
//! SERVER... may be @FILE with the command in it as a JSON array.
//!
//! rmcp runs its notification handlers side by side, so what they saw during a step is sorted.
#![allow(deprecated)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::*,
    service::{
        NotificationContext, PeerRequestOptions, RequestContext, RunningService, ServiceError, Subscription,
    },
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

#[derive(Clone, Default)]
struct User {
    lab: Arc<Value>,
    events: Arc<Mutex<Vec<Value>>>,
}

impl User {
    fn saw(&self, event: &str, what: impl Serialize) {
        let mut what = serde_json::to_value(what).unwrap();
        if let Some(fields) = what.as_object_mut() {
            fields.remove("progressToken");
            fields.remove("_meta");
        }
        self.events.lock().unwrap().push(json!({"event": event, "what": what}));
    }
}

fn to<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl ClientHandler for User {
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let seen = serde_json::to_value(&params).unwrap();
        self.saw("sampling", &params);
        let content = match &seen["messages"][0]["content"] {
            Value::Array(blocks) => &blocks[0],
            one => one,
        };
        let text = format!("an answer to {}", content["text"].as_str().unwrap_or_default());
        Ok(to(json!({"role": "assistant", "content": {"type": "text", "text": text},
            "model": "lab", "stopReason": "endTurn"})))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let seen = serde_json::to_value(&params).unwrap();
        self.saw("elicitation", &params);
        Ok(to(if seen["message"].as_str().unwrap_or_default().contains("decline") {
            json!({"action": "decline"})
        } else {
            json!({"action": "accept", "content": self.lab["answer"]})
        }))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.saw("progress", params);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.saw("log", params);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.saw("updated", params);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.saw("tools changed", ());
    }

    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.capabilities = to(json!({"sampling": {}, "elicitation": {"form": {}}}));
        info.client_info = Implementation::new("lab", "1");
        info
    }
}

fn outcome<T: Serialize>(got: Result<T, ServiceError>) -> Value {
    match got {
        Ok(result) => json!({"result": result}),
        Err(ServiceError::McpError(error)) => json!({"error": error}),
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// Long strings become their length and a checksum.
fn shorten(value: &mut Value) {
    match value {
        Value::String(s) if s.len() > 2000 => {
            let sum = s.bytes().fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
            *s = format!("{} bytes, sum {sum}", s.len());
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

fn say(mut line: Value) {
    shorten(&mut line);
    println!("{line}");
}

struct Session {
    client: RunningService<RoleClient, User>,
    modern: bool,
    listening: Option<Subscription>,
}

impl Session {
    fn call_params(&self, call: &Value) -> CallToolRequestParams {
        let mut params = json!({"name": call["name"], "arguments": call["arguments"]});
        if self.modern && call["name"] == "log" {
            params["_meta"] = json!({"io.modelcontextprotocol/logLevel": "info"});
        }
        to(params)
    }

    async fn call(&self, call: &Value) -> Value {
        let Some(limit) = call["limit"].as_u64() else {
            return outcome(self.client.call_tool(self.call_params(call)).await);
        };
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(self.call_params(call)));
        let options = PeerRequestOptions::with_timeout(Duration::from_secs(limit));
        match self.client.send_request_with_option(request, options).await {
            Ok(handle) => outcome(handle.await_response().await),
            Err(error) => outcome::<()>(Err(error)),
        }
    }

    async fn list(&self, what: &Value) -> Value {
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let params = Some(to(json!({"cursor": cursor})));
            let got = match what.as_str().unwrap_or_default() {
                "tools" => outcome(self.client.list_tools(params).await),
                "resources" => outcome(self.client.list_resources(params).await),
                "templates" => outcome(self.client.list_resource_templates(params).await),
                _ => outcome(self.client.list_prompts(params).await),
            };
            cursor = got["result"]["nextCursor"].as_str().map(str::to_owned);
            pages.push(got);
            if cursor.is_none() {
                return json!({"pages": pages});
            }
        }
    }

    async fn cancel(&self, step: &Value) -> Value {
        let request = CallToolRequest::new(self.call_params(step));
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::no_options();
        match self.client.send_cancellable_request(request, options).await {
            Ok(handle) => {
                tokio::time::sleep(Duration::from_millis(step["after"].as_u64().unwrap_or(0))).await;
                outcome(handle.cancel(Some("lab".into())).await)
            }
            Err(error) => json!({"error": error.to_string()}),
        }
    }

    async fn step(&mut self, step: &Value) -> Value {
        match step["op"].as_str().unwrap_or_default() {
            "list" => self.list(&step["what"]).await,
            "call" => self.call(step).await,
            "together" => {
                let calls = step["calls"].as_array().unwrap();
                assert_eq!(calls.len(), 5);
                let (a, b, c, d, e) = tokio::join!(
                    self.call(&calls[0]),
                    self.call(&calls[1]),
                    self.call(&calls[2]),
                    self.call(&calls[3]),
                    self.call(&calls[4])
                );
                json!({"answers": [a, b, c, d, e]})
            }
            "cancel" => self.cancel(step).await,
            "read" => outcome(self.client.read_resource(to(json!({"uri": step["uri"]}))).await),
            "prompt" => {
                let mut params = json!({"name": step["name"]});
                if !step["arguments"].is_null() {
                    params["arguments"] = step["arguments"].clone();
                }
                outcome(self.client.get_prompt(to(params)).await)
            }
            "complete" => {
                let params = json!({"ref": step["ref"], "argument": step["argument"]});
                outcome(self.client.complete(to(params)).await)
            }
            "level" if self.modern => json!({}),
            "level" => outcome(self.client.set_level(to(json!({"level": step["level"]}))).await),
            "watch" if self.modern => {
                let filter = json!({"toolsListChanged": true, "resourceSubscriptions": step["uris"]});
                match self.client.listen(to(filter)).await {
                    Ok(listening) => {
                        let honoured = json!({"result": listening.acknowledged()});
                        self.listening = Some(listening);
                        honoured
                    }
                    Err(error) => outcome::<()>(Err(error)),
                }
            }
            "unwatch" if self.modern => match self.listening.take() {
                Some(mut listening) => outcome(listening.cancel().await),
                None => json!({}),
            },
            "watch" => outcome(self.client.subscribe(to(json!({"uri": step["uris"][0]}))).await),
            "unwatch" => outcome(self.client.unsubscribe(to(json!({"uri": step["uris"][0]}))).await),
            other => panic!("{other}"),
        }
    }

    /// What came in during a step, once all that is expected has come (or three seconds have passed).
    async fn events(&mut self, expected: usize) -> Vec<Value> {
        let user = self.client.service().clone();
        for _ in 0..100 {
            if let Some(listening) = &mut self.listening {
                let next = tokio::time::timeout(Duration::from_millis(30), listening.next()).await;
                if let Ok(Ok(Some(notification))) = next {
                    let seen = serde_json::to_value(notification).unwrap();
                    user.saw("listened", json!({"method": seen["method"], "uri": seen["params"]["uri"]}));
                }
            } else {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            if user.events.lock().unwrap().len() >= expected {
                break;
            }
        }
        let mut events = std::mem::take(&mut *user.events.lock().unwrap());
        events.sort_by_key(Value::to_string);
        events
    }
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cut = args.iter().position(|a| a == "--").expect("-- SERVER");
    let (mut names, mut command) = (args[..cut].to_vec(), args[cut + 1..].to_vec());
    if let Some(file) = command[0].strip_prefix('@') {
        command =
            serde_json::from_slice(&std::fs::read(file).expect("read the command")).expect("a JSON array");
    }
    let mut mode = "legacy".to_owned();
    if names[0] == "--mode" {
        mode = names[1].clone();
        names.drain(..2);
    }
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let lifecycle = match mode.as_str() {
        "legacy" => ClientLifecycleMode::Initialize,
        "auto" => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        // rmcp cannot do without a discover.
        _ => ClientLifecycleMode::Discover { preferred_versions },
    };
    let sessions: Value = serde_json::from_str(include_str!("../../../sessions.json")).unwrap();
    let lab: Value = serde_json::from_str(include_str!("../../../lab.json")).unwrap();
    let user = User { lab: Arc::new(lab), ..User::default() };

    let client = if command[0].starts_with("http") {
        let transport = StreamableHttpClientTransport::from_uri(command[0].as_str());
        user.serve_with_lifecycle(transport, lifecycle).await
    } else {
        let mut server = tokio::process::Command::new(&command[0]);
        server.args(&command[1..]);
        let transport = TokioChildProcess::new(server).expect("start the server");
        user.serve_with_lifecycle(transport, lifecycle).await
    }
    .expect("connect");
    let about = serde_json::to_value(client.peer_info().as_deref()).unwrap();
    let modern = about["protocolVersion"].as_str().is_some_and(|v| v >= "2026");
    say(json!({"connected": about}));
    let mut session = Session { client, modern, listening: None };
    for name in names {
        for (n, step) in sessions[&name].as_array().into_iter().flatten().enumerate() {
            let mut got = session.step(step).await;
            got["events"] = json!(session.events(step["expect"].as_u64().unwrap_or(0) as usize).await);
            got["session"] = json!(name);
            got["step"] = json!(n);
            got["op"] = step["op"].clone();
            say(got);
        }
    }
    let left = session.events(0).await;
    let _ = session.client.cancel().await;
    say(json!({"left": left}));
}
