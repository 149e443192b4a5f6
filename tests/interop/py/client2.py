"""Client driver on Python mcp 2.x (both eras)."""

import asyncio
import contextlib
import warnings

import mcp_types as types
from mcp import Client, StdioServerParameters

import script

warnings.simplefilter("ignore")
MODES = {"legacy": "legacy", "auto": "auto", "pinned": "2026-07-28"}


class Driver(script.Driver):
    @contextlib.asynccontextmanager
    async def connected(self, command, mode):
        async with self.client(command, MODES[mode]) as self.it:
            self.modern = self.it.protocol_version >= "2026"
            self.listening = contextlib.AsyncExitStack()
            yield {"version": self.it.protocol_version, "server": self.it.server_info,
                   "capabilities": self.it.server_capabilities, "instructions": self.it.instructions}
            await self.listening.aclose()

    def client(self, command, mode):
        async def sampling(ctx, params):
            return types.CreateMessageResult.model_validate(self.answer_sampling(params))

        async def elicitation(ctx, params):
            return types.ElicitResult.model_validate(self.answer_elicitation(params))

        async def logging(params):
            self.seen("log", params=params)

        # A list of tools is wanted from the server each time, not from the client's cache.
        server = script.url(command) or StdioServerParameters(command=command[0], args=command[1:])
        return Client(server, mode=mode, cache=None,
                      sampling_callback=sampling, elicitation_callback=elicitation, logging_callback=logging,
                      message_handler=self.on_message, log_level="info",
                      client_info=types.Implementation(name="lab", version="1"))

    async def on_message(self, item):
        if isinstance(item, (types.ResourceUpdatedNotification, types.ToolListChangedNotification)):
            if not self.modern:
                self.seen("notification", message=item)
        elif isinstance(item, Exception):
            self.seen("exception", message=str(item))

    def list(self, what, cursor):
        return getattr(self.it, {"templates": "list_resource_templates"}.get(what, "list_" + what))(cursor=cursor)

    def call(self, name, arguments, progress=False):
        return self.it.call_tool(name, arguments, self.limit, progress_callback=self.on_progress if progress else None)

    def read(self, uri):
        return self.it.read_resource(uri)

    def prompt(self, name, arguments):
        return self.it.get_prompt(name, arguments)

    def complete(self, ref, argument):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return self.it.complete(kind.model_validate(ref), argument)

    def level(self, level):
        return self.it.set_logging_level(level)

    async def watch(self, uris):
        if not self.modern:
            return await self.it.subscribe_resource(uris[0])
        return await self.watch_with(self.it.listen(tools_list_changed=True, resource_subscriptions=uris))

    async def watch_with(self, listening):
        sub = await self.listening.enter_async_context(listening)

        async def pump():
            async for event in sub:
                self.seen("notification", change=type(event).__name__, uri=getattr(event, "uri", None))

        self.pump = asyncio.ensure_future(pump())
        return sub.honored

    async def unwatch(self, uris):
        if not self.modern:
            return await self.it.unsubscribe_resource(uris[0])
        await self.listening.aclose()
        await self.pump


if __name__ == "__main__":
    script.main(Driver())
