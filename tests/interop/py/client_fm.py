"""Client driver on fastmcp 4.x (both eras), which lies on Python mcp 2.x."""

import warnings

import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp.client.subscriptions import listen

import client2

warnings.simplefilter("ignore")


class Driver(client2.Driver):
    def client(self, command, mode):
        async def sampling(messages, params, ctx):
            return types.CreateMessageResult.model_validate(self.answer_sampling(params))

        async def elicitation(message, response_type, params, ctx):
            return types.ElicitResult.model_validate(self.answer_elicitation(params))

        async def logging(params):
            self.seen("log", params=params)

        url = client2.script.url(command)
        transport = StreamableHttpTransport(url) if url else StdioTransport(
            command=command[0], args=command[1:], keep_alive=False)
        return Client(transport, mode=mode, cache=False, sampling_handler=sampling, elicitation_handler=elicitation,
                      log_handler=logging, message_handler=self.on_message,
                      client_info=types.Implementation(name="lab", version="1"))

    def list(self, what, cursor):
        name = {"templates": "list_resource_templates_mcp"}.get(what, "list_%s_mcp" % what)
        return getattr(self.it, name)(cursor=cursor)

    def call(self, name, arguments, progress=False):
        return self.it.call_tool_mcp(name, arguments, progress_handler=self.on_progress if progress else None)

    def read(self, uri):
        return self.it.read_resource_mcp(uri)

    def prompt(self, name, arguments):
        return self.it.get_prompt_mcp(name, arguments)

    def complete(self, ref, argument):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return self.it.complete_mcp(kind.model_validate(ref), argument)

    def level(self, level):
        return self.it.set_logging_level(level)

    async def watch(self, uris):
        """fastmcp has no method of its own to watch anything: its session has."""
        if not self.modern:
            return await self.it.session.subscribe_resource(uris[0])
        return await self.watch_with(listen(self.it.session, tools_list_changed=True, resource_subscriptions=uris))

    async def unwatch(self, uris):
        if not self.modern:
            return await self.it.session.unsubscribe_resource(uris[0])
        return await super().unwatch(uris)


if __name__ == "__main__":
    client2.script.main(Driver())
