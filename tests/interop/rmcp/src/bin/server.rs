//! The lab server on rmcp: both eras.
#![allow(deprecated)]

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use hyper_util::service::TowerToHyperService;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::*,
    service::{RequestContext, SubscriptionContext},
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, stdio,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

#[derive(Clone)]
struct Lab {
    lab: Arc<Value>,
    grown: Arc<Mutex<bool>>,
    watched: Arc<Mutex<BTreeSet<String>>>,
    level: Arc<Mutex<String>>,
    /// What a listener may be told: a resource's URI, or none for the list of tools.
    changes: broadcast::Sender<Option<String>>,
    /// Made before a listener is told that it is one, so that it misses nothing.
    listeners: Arc<Mutex<Vec<broadcast::Receiver<Option<String>>>>>,
}

/// A result: the SDK takes the type out again for a legacy client.
fn done<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = json!("complete");
    to(value)
}

fn to<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|e| ErrorData::internal_error(e.to_string(), None))
}

fn refuse<T>(code: i32, message: String, data: Option<Value>) -> Result<T, ErrorData> {
    Err(ErrorData::new(ErrorCode(code), message, data))
}

fn text(value: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": value.into()}]})
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|v| v.as_str() >= "2026")
}

fn failed(error: impl ToString) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl Lab {
    fn page<T: DeserializeOwned>(
        &self,
        list: &str,
        key: &str,
        request: Option<PaginatedRequestParams>,
    ) -> Result<T, ErrorData> {
        let mut all = self.lab[list].as_array().cloned().unwrap_or_default();
        if list == "tools" && *self.grown.lock().unwrap() {
            all.push(self.lab["grown"].clone());
        }
        let start: usize = request.and_then(|r| r.cursor).map_or(0, |c| c.parse().unwrap_or(0));
        let end = (start + self.lab["page"].as_u64().unwrap_or(5) as usize).min(all.len());
        let mut result = json!({key: all[start..end]});
        if end < all.len() {
            result["nextCursor"] = json!(end.to_string());
        }
        done(result)
    }

    /// Asks the client: as a request of our own in the legacy era, as an unfinished result in the modern one.
    async fn ask(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        method: &str,
        params: Value,
    ) -> Result<Result<Value, CallToolResponse>, ErrorData> {
        if is_modern(context) {
            if let Some(answer) = request.input_responses.as_ref().and_then(|r| r.get("ask")) {
                return Ok(Ok(serde_json::to_value(answer).map_err(failed)?));
            }
            let unfinished: InputRequiredResult = to(json!({
                "resultType": "input_required",
                "inputRequests": {"ask": {"method": method, "params": params}},
                "requestState": format!("asked {method}"),
            }))?;
            return Ok(Err(unfinished.into()));
        }
        let answer = if method == "sampling/createMessage" {
            serde_json::to_value(context.peer.create_message(to(params)?).await.map_err(failed)?)
        } else {
            serde_json::to_value(context.peer.create_elicitation(to(params)?).await.map_err(failed)?)
        };
        Ok(Ok(answer.map_err(failed)?))
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = Value::Object(request.arguments.clone().unwrap_or_default());
        let result = match request.name.as_ref() {
            "echo" => text(args["text"].as_str().unwrap_or_default()),
            "add" => {
                let sum = args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0);
                let mut result = text(sum.to_string());
                result["structuredContent"] = json!({"sum": sum});
                result
            }
            "slow" => {
                let pause = Duration::from_millis(args["ms"].as_u64().unwrap_or(0));
                tokio::select! {
                    () = tokio::time::sleep(pause) => text(args["tag"].as_str().unwrap_or_default()),
                    () = context.ct.cancelled() => return refuse(-32800, "cancelled".into(), None),
                }
            }
            "steps" => {
                let count = args["count"].as_u64().unwrap_or(0);
                for n in 1..=count {
                    if let Some(token) = context.meta.get_progress_token() {
                        let step = json!({"progressToken": token, "progress": n, "total": count,
                            "message": format!("step {n}")});
                        context.peer.notify_progress(to(step)?).await.map_err(failed)?;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                text("done")
            }
            "log" => {
                let meta = serde_json::to_value(&context.meta).map_err(failed)?;
                let least = if is_modern(&context) {
                    meta["io.modelcontextprotocol/logLevel"].as_str().unwrap_or("none").to_owned()
                } else {
                    self.level.lock().unwrap().clone()
                };
                let rank = |level: &str| LEVELS.iter().position(|l| *l == level).unwrap_or(99);
                for line in self.lab["logs"].as_array().into_iter().flatten() {
                    if rank(line[0].as_str().unwrap_or_default()) >= rank(&least) {
                        let params = json!({"level": line[0], "data": line[1], "logger": "lab"});
                        context.peer.notify_logging_message(to(params)?).await.map_err(failed)?;
                    }
                }
                text("logged")
            }
            "sample" => {
                let params = json!({"maxTokens": 50, "messages": [
                    {"role": "user", "content": {"type": "text", "text": args["prompt"]}}]});
                match self.ask(&request, &context, "sampling/createMessage", params).await? {
                    Ok(answer) => {
                        text(format!("sampled {}", answer["content"]["text"].as_str().unwrap_or_default()))
                    }
                    Err(unfinished) => return Ok(unfinished),
                }
            }
            "elicit" => {
                let params = json!({"mode": "form", "message": args["message"],
                    "requestedSchema": self.lab["ask"]});
                match self.ask(&request, &context, "elicitation/create", params).await? {
                    Ok(answer) => text(format!(
                        "{} {}",
                        answer["action"].as_str().unwrap_or_default(),
                        answer["content"]
                    )),
                    Err(unfinished) => return Ok(unfinished),
                }
            }
            "fail" if args["how"] == "rpc" => {
                return refuse(-32050, "refused on purpose".into(), Some(json!({"why": ["lab", 1]})));
            }
            "fail" => {
                let mut result = text("failed on purpose");
                result["isError"] = json!(true);
                result
            }
            "big" => {
                let bytes = args["bytes"].as_u64().unwrap_or(0) as usize;
                text(&"0123456789abcde\n".repeat(bytes / 16 + 1)[..bytes])
            }
            "odd" => text(self.lab["odd"].as_str().unwrap_or_default()),
            "binary" => json!({"content": [
                {"type": "image", "mimeType": "image/png", "data": self.lab["pixel"]},
                {"type": "audio", "mimeType": "audio/wav", "data": self.lab["blob"]},
                {"type": "resource", "resource": {"uri": "lab://blob",
                    "mimeType": "application/octet-stream", "blob": self.lab["blob"]}},
                {"type": "resource_link", "uri": "lab://text", "name": "text"}]}),
            "touch" => {
                let uri = args["uri"].as_str().unwrap_or_default().to_owned();
                if is_modern(&context) {
                    let _ = self.changes.send(Some(uri));
                } else if self.watched.lock().unwrap().contains(&uri) {
                    let params = to(json!({"uri": uri}))?;
                    context.peer.notify_resource_updated(params).await.map_err(failed)?;
                }
                text("touched")
            }
            "grow" => {
                *self.grown.lock().unwrap() = true;
                if is_modern(&context) {
                    let _ = self.changes.send(None);
                } else {
                    context.peer.notify_tool_list_changed().await.map_err(failed)?;
                }
                text("grown")
            }
            other => return refuse(-32602, format!("no tool {other}"), None),
        };
        Ok(done::<CallToolResult>(result)?.into())
    }
}

impl ServerHandler for Lab {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true},
            "prompts": {}, "logging": {}, "completions": {}});
        ServerConfig::new(serde_json::from_value(capabilities).unwrap())
            .with_server_info(Implementation::new("lab-rmcp", "1"))
            .with_instructions(self.lab["instructions"].as_str().unwrap_or_default())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.page("tools", "tools", request)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.page("resources", "resources", request)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.page("templates", "resourceTemplates", request)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.page("prompts", "prompts", request)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let content = match uri {
            "lab://text" => json!({"uri": uri, "mimeType": "text/plain", "text": self.lab["odd"]}),
            "lab://blob" => {
                json!({"uri": uri, "mimeType": "application/octet-stream", "blob": self.lab["blob"]})
            }
            _ if uri.starts_with("lab://item/") || uri.starts_with("lab://more/") => {
                json!({"uri": uri, "mimeType": "text/plain", "text": format!("this is {uri}")})
            }
            _ => return refuse(-32602, format!("no resource {uri}"), Some(json!({"uri": uri}))),
        };
        Ok(done::<ReadResourceResult>(json!({"contents": [content]}))?.into())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = serde_json::to_value(&request.arguments).map_err(failed)?;
        let content = match request.name.as_str() {
            "greet" => {
                let who = arguments["who"].as_str().unwrap_or_default();
                json!({"type": "text", "text": format!("Hello, {who}!")})
            }
            "look" => json!({"type": "image", "mimeType": "image/png", "data": self.lab["pixel"]}),
            other => return refuse(-32602, format!("no prompt {other}"), None),
        };
        let messages = json!({"messages": [{"role": "user", "content": content}]});
        Ok(done::<GetPromptResult>(messages)?.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let names = self.lab["names"].as_array().cloned().unwrap_or_default();
        let starts = |n: &Value| n.as_str().is_some_and(|n| n.starts_with(&request.argument.value));
        let values: Vec<_> = names.into_iter().filter(starts).collect();
        done(json!({"completion": {"values": values, "total": values.len(), "hasMore": false}}))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let level = serde_json::to_value(request.level).map_err(failed)?;
        *self.level.lock().unwrap() = level.as_str().unwrap_or("debug").to_owned();
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.lock().unwrap().insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.lock().unwrap().remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, wanted: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.listeners.lock().unwrap().push(self.changes.subscribe());
        Some(wanted.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let waiting = self.listeners.lock().unwrap().pop();
        let mut changes = waiting.unwrap_or_else(|| self.changes.subscribe());
        loop {
            let change = tokio::select! {
                change = changes.recv() => change.map_err(failed)?,
                () = context.cancelled() => return Ok(()),
            };
            // A refusal means that this listener did not ask for it.
            let _ = match change {
                Some(uri) => context.sink().notify_resource_updated(uri).await,
                None => context.sink().notify_tool_list_changed().await,
            };
        }
    }
}

/// Over Streamable HTTP at a port of 127.0.0.1; 0 is any free one.
async fn serve_http(server: Lab, port: u16) {
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
    println!("http://{}/mcp", listener.local_addr().unwrap());
    while let Ok((stream, _)) = listener.accept().await {
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
                .await;
        });
    }
}

#[tokio::main]
async fn main() {
    let lab = serde_json::from_str(include_str!("../../../lab.json")).unwrap();
    let server = Lab {
        lab: Arc::new(lab),
        grown: Arc::default(),
        watched: Arc::default(),
        level: Arc::new(Mutex::new("debug".into())),
        changes: broadcast::channel(16).0,
        listeners: Arc::default(),
    };
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "--http") {
        return serve_http(server, args[1].parse().expect("a port")).await;
    }
    if let Ok(running) = server.serve(stdio()).await {
        let _ = running.waiting().await;
    }
}
