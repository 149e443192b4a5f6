"""Runs scripted sessions through a client and prints what its user sees, one JSON object a line.

A driver subclasses `Driver`. Command line: DRIVER [--mode legacy|auto|pinned] SESSION... -- SERVER...
SERVER... may be @FILE with the command in it as a JSON array, or the URL of a server.
"""

import argparse
import asyncio
import hashlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent.parent
SESSIONS = json.loads((HERE / "sessions.json").read_text(encoding="utf-8"))
LAB = json.loads((HERE / "lab.json").read_text(encoding="utf-8"))


def plain(value):
    """A model as wire-shaped data, long strings cut to their digest."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, str) and len(value) > 2000:
        return "%d characters, sha256 %s" % (len(value), hashlib.sha256(value.encode()).hexdigest())
    return value


def say(**line):
    sys.stdout.buffer.write(json.dumps(line, sort_keys=True).encode() + b"\n")
    sys.stdout.buffer.flush()


def url(command):
    return command[0] if command[0].startswith("http") else None


class Driver:
    """`connected(command, mode)` is an async context manager; `modern` is set by it.
    `limit` is how many seconds a call may take. The methods list, call, read, prompt, complete, level, watch and unwatch answer with a model."""

    def __init__(self):
        self.events, self.modern, self.limit = [], False, None

    def seen(self, kind, **what):
        self.events.append({"event": kind, **{k: plain(v) for k, v in what.items()}})

    def answer_sampling(self, params):
        self.seen("sampling", params=params)
        text = "an answer to " + plain(params)["messages"][0]["content"]["text"]
        return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "lab", "stopReason": "endTurn"}

    def answer_elicitation(self, params):
        self.seen("elicitation", params=params)
        if "decline" in plain(params)["message"]:
            return {"action": "decline"}
        return {"action": "accept", "content": LAB["answer"]}

    async def on_progress(self, progress, total, message):
        self.seen("progress", progress=progress, total=total, message=message)

    async def outcome(self, awaitable):
        try:
            return {"result": plain(await awaitable)}
        except Exception as err:
            detail = getattr(err, "error", None) or err
            what = {"type": type(err).__name__}
            for name in ("code", "message", "data"):
                if getattr(detail, name, None) is not None:
                    what[name] = plain(getattr(detail, name))
            return {"error": what if len(what) > 1 else {**what, "message": str(err)}}

    async def cancelled(self, step):
        task = asyncio.ensure_future(self.outcome(self.call(step["name"], step["arguments"])))
        await asyncio.sleep(step["after"] / 1000)
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return {"cancelled": True}

    async def step(self, step):
        op, self.limit = step["op"], step.get("limit")
        if op == "list":
            pages, cursor = [], None
            while True:
                got = await self.outcome(self.list(step["what"], cursor))
                pages.append(got)
                cursor = got.get("result", {}).get("nextCursor")
                if not cursor:
                    return {"pages": pages}
        if op == "call":
            return await self.outcome(self.call(step["name"], step["arguments"], step.get("progress", False)))
        if op == "together":
            calls = [self.outcome(self.call(c["name"], c["arguments"])) for c in step["calls"]]
            return {"answers": await asyncio.gather(*calls)}
        if op == "cancel":
            return await self.cancelled(step)
        if op == "read":
            return await self.outcome(self.read(step["uri"]))
        if op == "prompt":
            return await self.outcome(self.prompt(step["name"], step.get("arguments")))
        if op == "complete":
            return await self.outcome(self.complete(step["ref"], step["argument"]))
        if op == "level":
            return {} if self.modern else await self.outcome(self.level(step["level"]))
        if op == "watch":
            return await self.outcome(self.watch(step["uris"]))
        if op == "unwatch":
            return await self.outcome(self.unwatch(step["uris"]))
        raise ValueError(op)

    async def run(self, names, command, mode):
        async with self.connected(command, mode) as about:
            say(connected=plain(about))
            for name in names:
                for n, step in enumerate(SESSIONS[name]):
                    got = await self.step(step)
                    for _ in range(300):
                        if len(self.events) >= step.get("expect", 0):
                            break
                        await asyncio.sleep(0.01)
                    events, self.events = self.events, []
                    say(session=name, step=n, op=step["op"], events=events, **got)
            await asyncio.sleep(0.1)
        say(left=self.events)


def main(driver):
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["legacy", "auto", "pinned"], default="legacy")
    parser.add_argument("sessions", nargs="+")
    cut = sys.argv.index("--")
    args, command = parser.parse_args(sys.argv[1:cut]), sys.argv[cut + 1:]
    if command[0].startswith("@"):
        command = json.loads(pathlib.Path(command[0][1:]).read_text(encoding="utf-8"))
    asyncio.run(driver.run(args.sessions, command, args.mode))
