"""The lab server on Python mcp 2.x: both eras."""

import asyncio
import warnings

import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

import lab

warnings.simplefilter("ignore")
bus = InMemorySubscriptionBus()
watched = set()
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
level = ["debug"]


class NeedsInput(Exception):
    pass


class Peer:
    def __init__(self, ctx, params):
        self.ctx, self.params = ctx, params
        self.modern = ctx.protocol_version >= "2026"

    async def progress(self, n, total, message):
        await self.ctx.session.report_progress(n, total, message)

    async def log(self, at, data):
        if not self.modern and LEVELS.index(at) < LEVELS.index(level[0]):
            return
        await self.ctx.session.send_log_message(at, data, "lab", related_request_id=self.ctx.request_id)

    async def ask(self, kind, request, result):
        if not self.modern:
            return dump(await self.ctx.session.send_request(request, result))
        answers = self.params.input_responses or {}
        if kind not in answers:
            raise NeedsInput({"resultType": "input_required", "inputRequests": {kind: dump(request)},
                              "requestState": "asked for " + kind})
        return dump(answers[kind])

    async def sample(self, params):
        request = types.CreateMessageRequest(params=types.CreateMessageRequestParams.model_validate(params))
        return await self.ask("sample", request, types.CreateMessageResult)

    async def elicit(self, params):
        request = types.ElicitRequest(params=types.ElicitRequestFormParams.model_validate(params))
        return await self.ask("elicit", request, types.ElicitResult)

    async def touched(self, uri):
        if self.modern:
            await bus.publish(ResourceUpdated(uri))
        elif uri in watched:
            await self.ctx.session.send_resource_updated(uri)

    async def grown(self):
        if self.modern:
            await bus.publish(ToolsListChanged())
        else:
            await self.ctx.session.send_tool_list_changed()


def dump(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def answers(make, model):
    async def handler(ctx, params):
        try:
            return model.model_validate(await make(ctx, params))
        except NeedsInput as need:
            return types.InputRequiredResult.model_validate(need.args[0])
        except lab.Refused as err:
            raise MCPError(err.code, str(err), err.data)
    return handler


def lister(key, model):
    async def handler(ctx, params):
        return lab.page(key, params and params.cursor)
    return answers(handler, model)


async def call_tool(ctx, params):
    return await lab.call(Peer(ctx, params), params.name, params.arguments)


async def read(ctx, params):
    return lab.read(str(params.uri))


async def prompt(ctx, params):
    return lab.prompt(params.name, params.arguments)


async def complete(ctx, params):
    return lab.complete(dump(params.argument))


async def subscribe(ctx, params):
    watched.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(ctx, params):
    watched.discard(str(params.uri))
    return types.EmptyResult()


async def set_level(ctx, params):
    level[0] = params.level
    return types.EmptyResult()


async def main():
    server = Server(
        "lab-py2", version="1", instructions=lab.LAB["instructions"],
        on_list_tools=lister("tools", types.ListToolsResult),
        on_list_resources=lister("resources", types.ListResourcesResult),
        on_list_resource_templates=lister("resourceTemplates", types.ListResourceTemplatesResult),
        on_list_prompts=lister("prompts", types.ListPromptsResult),
        on_call_tool=answers(call_tool, types.CallToolResult),
        on_read_resource=answers(read, types.ReadResourceResult),
        on_get_prompt=answers(prompt, types.GetPromptResult), on_completion=answers(complete, types.CompleteResult),
        on_subscribe_resource=subscribe, on_unsubscribe_resource=unsubscribe,
        on_set_logging_level=set_level, on_subscriptions_listen=ListenHandler(bus),
    )
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    if lab.http_port() is not None:
        server.create_initialization_options = lambda: options
        return await lab.serve_http(server.streamable_http_app(), lab.http_port(), "on")
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, options)


asyncio.run(main())
