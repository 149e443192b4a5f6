"""The lab server on Python mcp 1.x: the legacy era."""

import asyncio

import mcp.types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError

import lab

watched = set()
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
level = ["debug"]


class Peer:
    def __init__(self, ctx):
        self.session, self.id = ctx.session, ctx.request_id
        self.token = ctx.meta and ctx.meta.progressToken

    async def progress(self, n, total, message):
        if self.token is not None:
            await self.session.send_progress_notification(self.token, n, total, message, str(self.id))

    async def log(self, at, data):
        if LEVELS.index(at) >= LEVELS.index(level[0]):
            await self.session.send_log_message(at, data, "lab", self.id)

    async def sample(self, params):
        return dump(await self.session.create_message(
            [types.SamplingMessage.model_validate(m) for m in params["messages"]], max_tokens=params["maxTokens"]))

    async def elicit(self, params):
        return dump(await self.session.elicit(params["message"], params["requestedSchema"]))

    async def touched(self, uri):
        if uri in watched:
            await self.session.send_resource_updated(uri)

    async def grown(self):
        await self.session.send_tool_list_changed()


def dump(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


async def main():
    server = Server("lab-py1", version="1", instructions=lab.LAB["instructions"])

    def on(request, result, make):
        async def handler(req):
            try:
                got = make(req.params)
                got = await got if asyncio.iscoroutine(got) else got
                return types.ServerResult(result.model_validate(got))
            except lab.Refused as err:
                raise McpError(types.ErrorData(code=err.code, message=str(err), data=err.data))
        server.request_handlers[request] = handler

    def lister(request, result, key):
        on(request, result, lambda p: lab.page(key, p and p.cursor))

    lister(types.ListToolsRequest, types.ListToolsResult, "tools")
    lister(types.ListResourcesRequest, types.ListResourcesResult, "resources")
    lister(types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult, "resourceTemplates")
    lister(types.ListPromptsRequest, types.ListPromptsResult, "prompts")
    on(types.CallToolRequest, types.CallToolResult,
       lambda p: lab.call(Peer(server.request_context), p.name, p.arguments))
    on(types.ReadResourceRequest, types.ReadResourceResult, lambda p: lab.read(str(p.uri)))
    on(types.GetPromptRequest, types.GetPromptResult, lambda p: lab.prompt(p.name, p.arguments))
    on(types.CompleteRequest, types.CompleteResult, lambda p: lab.complete(dump(p.argument)))
    on(types.SubscribeRequest, types.EmptyResult, lambda p: watched.add(str(p.uri)) or {})
    on(types.UnsubscribeRequest, types.EmptyResult, lambda p: watched.discard(str(p.uri)) or {})
    on(types.SetLevelRequest, types.EmptyResult, lambda p: level.__setitem__(0, p.level) or {})

    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    options.capabilities.resources.subscribe = True
    if lab.http_port() is not None:
        server.create_initialization_options = lambda: options
        manager = StreamableHTTPSessionManager(server)
        async with manager.run():
            await lab.serve_http(manager.handle_request, lab.http_port())
        return
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, options)


asyncio.run(main())
