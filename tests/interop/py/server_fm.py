"""The lab server on fastmcp 4.x: both eras. It knows no resource subscriptions."""

import asyncio
import base64
import json
import warnings

import mcp_types as types
from fastmcp import FastMCP
from fastmcp.prompts import Message, PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.shared.exceptions import MCPError

import lab

warnings.simplefilter("ignore")
server = FastMCP("lab-fm", instructions=lab.LAB["instructions"], version="1", list_page_size=lab.LAB["page"])


class NeedsInput(Exception):
    pass


def dump(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class Peer:
    def __init__(self):
        self.ctx = get_context()

    async def progress(self, n, total, message):
        await self.ctx.report_progress(n, total, message)

    async def log(self, level, data):
        await self.ctx.log(json.dumps(data, ensure_ascii=False), level=level, logger_name="lab")

    async def ask(self, kind, request, result):
        if self.ctx.session.protocol_version < "2026":
            return dump(await self.ctx.session.send_request(request, result))
        answers = self.ctx.input_responses or {}
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
        pass

    async def grown(self):
        add_tool(lab.LAB["grown"])
        await self.ctx.send_notification(types.ToolListChangedNotification())


class LabTool(Tool):
    async def run(self, arguments):
        try:
            got = await lab.call(Peer(), self.name, arguments)
        except lab.Refused as err:
            raise MCPError(err.code, str(err), err.data)
        except NeedsInput as need:
            return InputRequiredToolResult(types.InputRequiredResult.model_validate(need.args[0]))
        return ToolResult.from_mcp_result(types.CallToolResult.model_validate(got))


def add_tool(tool):
    server.add_tool(LabTool(
        name=tool["name"], title=tool.get("title"), description=tool["description"],
        parameters=tool["inputSchema"], output_schema=tool.get("outputSchema")))


def add_resource(resource):
    uri = resource["uri"]

    @server.resource(uri, name=resource["name"], description=resource.get("description"),
                     mime_type=resource.get("mimeType"))
    def read():
        return contents(uri)


def contents(uri):
    out = []
    for one in lab.read(uri)["contents"]:
        data = one["text"] if "text" in one else base64.b64decode(one["blob"])
        out.append(ResourceContent(data, mime_type=one["mimeType"]))
    return ResourceResult(out)


for tool in lab.TOOLS:
    add_tool(tool)
for resource in lab.LAB["resources"]:
    add_resource(resource)


@server.resource("lab://item/{id}", name="item", mime_type="text/plain")
def item(id: str):
    return contents("lab://item/" + id)


def messages(name, **arguments):
    return PromptResult([Message(types.TextContent(text=m["content"]["text"]) if m["content"]["type"] == "text"
                                 else types.ImageContent(data=m["content"]["data"], mime_type=m["content"]["mimeType"]))
                         for m in lab.prompt(name, arguments)["messages"]])


@server.prompt(description="Greets.")
def greet(who: str):
    return messages("greet", who=who)


@server.prompt(description="With an image.")
def look():
    return messages("look")


@server.completion
def complete(ref, argument, context):
    return lab.complete(dump(argument))["completion"]["values"]


if lab.http_port() is None:
    server.run(transport="stdio", show_banner=False, log_level="ERROR")
else:
    asyncio.run(lab.serve_http(server.http_app(), lab.http_port(), "on"))
