"""What the lab servers of the Python SDKs have in common: everything in wire form, as plain dicts.

A server gives each call a `peer` with the coroutines that an answer may need on the way:
progress(n, total, message), log(level, data), sample(params), elicit(params), touched(uri) and grown().
"""

import asyncio
import json
import pathlib
import re
import socket
import sys

LAB = json.loads((pathlib.Path(__file__).parent.parent / "lab.json").read_text(encoding="utf-8"))
TOOLS = list(LAB["tools"])
KEYS = {"tools": TOOLS, "resources": LAB["resources"], "resourceTemplates": LAB["templates"], "prompts": LAB["prompts"]}


class Refused(Exception):
    """A JSON-RPC error."""

    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.data = code, data


def page(key, cursor):
    start = int(cursor or 0)
    end = start + LAB["page"]
    more = {"nextCursor": str(end)} if end < len(KEYS[key]) else {}
    return {key: KEYS[key][start:end], **more}


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def http_port():
    """The N of --http N: serve over Streamable HTTP at that port of 127.0.0.1 (0 is any free one)."""
    return int(sys.argv[2]) if sys.argv[1:2] == ["--http"] else None


async def serve_http(app, port, lifespan="off"):
    import uvicorn

    listener = socket.create_server(("127.0.0.1", port))
    print("http://127.0.0.1:%d/mcp" % listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", lifespan=lifespan, interface="asgi3",
                            timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[listener])


async def call(peer, name, arguments):
    args = arguments or {}
    if name == "echo":
        return text(args["text"])
    if name == "add":
        total = args["a"] + args["b"]
        return text(json.dumps(total), structuredContent={"sum": total})
    if name == "slow":
        await asyncio.sleep(args["ms"] / 1000)
        return text(args["tag"])
    if name == "steps":
        for n in range(1, args["count"] + 1):
            await peer.progress(n, args["count"], "step %d" % n)
            await asyncio.sleep(0.02)
        return text("done")
    if name == "log":
        for level, data in LAB["logs"]:
            await peer.log(level, data)
        return text("logged")
    if name == "sample":
        message = {"role": "user", "content": {"type": "text", "text": args["prompt"]}}
        got = await peer.sample({"messages": [message], "maxTokens": 50})
        return text("sampled " + got["content"]["text"])
    if name == "elicit":
        got = await peer.elicit({"mode": "form", "message": args["message"], "requestedSchema": LAB["ask"]})
        return text("%s %s" % (got["action"], json.dumps(got.get("content"), ensure_ascii=False, sort_keys=True)))
    if name == "fail":
        if args["how"] == "rpc":
            raise Refused(-32050, "refused on purpose", {"why": ["lab", 1]})
        return text("failed on purpose", isError=True)
    if name == "account":
        value = {**LAB["account"], "owner": 7} if args.get("broken") else LAB["account"]
        return text(json.dumps(value), structuredContent=value)
    if name == "big":
        return text(("0123456789abcde\n" * (args["bytes"] // 16 + 1))[: args["bytes"]])
    if name == "odd":
        return text(LAB["odd"])
    if name == "binary":
        blob = {"uri": "lab://blob", "mimeType": "application/octet-stream", "blob": LAB["blob"]}
        return {"content": [
            {"type": "image", "mimeType": "image/png", "data": LAB["pixel"]},
            {"type": "audio", "mimeType": "audio/wav", "data": LAB["blob"]},
            {"type": "resource", "resource": blob},
            {"type": "resource_link", "uri": "lab://text", "name": "text"},
        ]}
    if name == "touch":
        await peer.touched(args["uri"])
        return text("touched")
    if name == "grow":
        if LAB["grown"] not in TOOLS:
            TOOLS.append(LAB["grown"])
        await peer.grown()
        return text("grown")
    raise Refused(-32602, "no tool " + name)


def read(uri):
    if uri == "lab://text":
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": LAB["odd"]}]}
    if uri == "lab://blob":
        return {"contents": [{"uri": uri, "mimeType": "application/octet-stream", "blob": LAB["blob"]}]}
    if re.match("lab://(item|more)/", uri):
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "this is " + uri}]}
    raise Refused(-32602, "no resource " + uri, {"uri": uri})


def prompt(name, arguments):
    if name == "greet":
        return {"description": "Greets.", "messages": [
            {"role": "user", "content": {"type": "text", "text": "Hello, %s!" % (arguments or {})["who"]}}]}
    if name == "look":
        return {"messages": [
            {"role": "user", "content": {"type": "image", "mimeType": "image/png", "data": LAB["pixel"]}}]}
    raise Refused(-32602, "no prompt " + name)


def complete(argument):
    names = [n for n in LAB["names"] if n.startswith(argument["value"])]
    return {"completion": {"values": names, "total": len(names), "hasMore": False}}
