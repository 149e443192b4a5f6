"""Client driver on Python mcp 1.x (the legacy era only)."""

import asyncio
import contextlib
import datetime

import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

import script


class Driver(script.Driver):
    @contextlib.asynccontextmanager
    async def connected(self, command, mode):
        async def sampling(ctx, params):
            return types.CreateMessageResult.model_validate(self.answer_sampling(params))

        async def elicitation(ctx, params):
            return types.ElicitResult.model_validate(self.answer_elicitation(params))

        async def logging(params):
            self.seen("log", params=params)

        async def message(item):
            root = getattr(item, "root", None)
            if isinstance(root, (types.ResourceUpdatedNotification, types.ToolListChangedNotification)):
                self.seen("notification", message=root)
            elif isinstance(item, Exception):
                self.seen("exception", message=str(item))

        url = script.url(command)
        params = StdioServerParameters(command=command[0], args=command[1:])
        async with streamable_http_client(url) if url else stdio_client(params) as (read, write, *_):
            async with ClientSession(read, write, sampling_callback=sampling, elicitation_callback=elicitation,
                                     logging_callback=logging, message_handler=message) as self.session:
                yield await self.session.initialize()

    def list(self, what, cursor):
        method = getattr(self.session, {"templates": "list_resource_templates"}.get(what, "list_" + what))
        return method(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)

    def call(self, name, arguments, progress=False):
        return self.session.call_tool(name, arguments, self.limit and datetime.timedelta(seconds=self.limit),
                                      progress_callback=self.on_progress if progress else None)

    async def cancelled(self, step):
        """This SDK sends no cancellation of its own: the program does, and the server's answer is awaited."""
        request = self.session._request_id
        task = asyncio.ensure_future(self.outcome(self.call(step["name"], step["arguments"])))
        await asyncio.sleep(step["after"] / 1000)
        note = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=request, reason="lab"))
        await self.session.send_notification(types.ClientNotification(note))
        done, _ = await asyncio.wait([task], timeout=0.7)
        if done:
            return task.result()
        task.cancel()
        return {"cancelled": True}

    def read(self, uri):
        return self.session.read_resource(AnyUrl(uri))

    def prompt(self, name, arguments):
        return self.session.get_prompt(name, arguments)

    def complete(self, ref, argument):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return self.session.complete(kind.model_validate(ref), argument)

    def level(self, level):
        return self.session.set_logging_level(level)

    def watch(self, uris):
        return self.session.subscribe_resource(AnyUrl(uris[0]))

    def unwatch(self, uris):
        return self.session.unsubscribe_resource(AnyUrl(uris[0]))


script.main(Driver())
