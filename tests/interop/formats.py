"""Redacted structured content and the clients that check it: the TypeScript SDKs hold it against the tool's output schema
with ajv and its formats, the Python ones with jsonschema. `run` has the cases below beside its own: `add` gives them what
they need of it."""

import json
import pathlib
import re

LAB = json.loads((pathlib.Path(__file__).resolve().parent / "lab.json").read_text(encoding="utf-8"))["account"]
KEPT = {"plan", "secret_on", "secret_none"}  # no rule is about these
PARTLY = {"hook": "https://(?:REDACTED|<)[^ ]*@hooks.initech.io/in\\?access_token=REDACTED-[0-9a-f.]+&page=2",
          "next": "/in\\?api_key=REDACTED-[0-9a-f.]+", "contact": "mailto:redacted-[0-9a-f.]+@redacted.invalid"}


def leaves(value, at=""):
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, "%s/%s" % (at, key))]
    if isinstance(value, list):
        return [leaf for n, inner in enumerate(value) for leaf in leaves(inner, "%s/%d" % (at, n))]
    return [(at, value)]


def add(lab):
    """`lab` is the module that runs the cases."""
    case, Failed, same = lab.case, lab.Failed, lab.same

    def check(holds, why):
        if not holds:
            raise Failed(why)

    def accounts(lines, what, strict):
        """The outcome of each call of `account`. That clients do check is seen from the answer that fits no schema."""
        found = [json.loads(line) for line in lines if line and json.loads(line).get("op") == "call"]
        good, broken = found
        check("result" in good, "%s: the client refuses the structured content: %s" % (what, good.get("error")))
        check(("error" in broken) == strict, "%s: the client does not check: %s" % (what, broken))
        return good["result"]

    def stands_for(at, live, shown):
        """Whether what was shown in the place of a value is nothing of it."""
        key = at.split("/")[1]
        if key in KEPT:
            return live == shown
        if key in PARTLY:
            return re.fullmatch(PARTLY[key], shown)
        return shown == 0 if isinstance(live, (int, float)) else live != shown and live not in str(shown)

    def secrets():
        strings = [value for at, value in leaves(LAB) if isinstance(value, str) and at.strip("/") not in KEPT | set(PARTLY)]
        return strings + ["hunter22b", "abcd1234efgh", "k3y-0f-next-page", "bob.ray", "4711", "0.625"]

    def formats(client, mode, server, transport, salt=False):
        name = "formats_%s_%s_%s__%s%s" % (transport, client, mode, server, "_salted" if salt else "")

        @case(name, client, server)
        def body(c):
            names, more = ["formats"], ["--redact-salt-env", "LAB_SALT"] if salt else []
            strict = client.startswith("ts") or server.startswith("py")
            if transport == "stdio":
                direct = c.drive("direct", client, mode, names, lab.SERVERS[server]())
                record = c.record(*lab.SERVERS[server]())
                if salt:
                    record = ["env", "LAB_SALT=pepper"] + record[:2] + more + record[2:]
                recorded = c.drive("record", client, mode, names, record)
                serve = c.observed("replayer", (["env", "LAB_SALT=pepper"] if salt else []) + c.serve())
                replayed = c.drive("replay", client, mode, names, serve)
                c.ended_well("replayer")
            else:
                with c.server_http(server) as there:
                    direct = c.drive("direct", client, mode, names, [there.url])
                with c.server_http(server) as there, c.record_http(there.url) as recorder:
                    recorded = c.drive("record", client, mode, names, [recorder.url])
                    recorder.end()
                with c.serve_http() as replayer:
                    replayed = c.drive("replay", client, mode, names, [replayer.url])
                    replayer.end()
            same(direct, recorded, "direct", "recording")
            live = accounts(recorded, "recording", strict)["structuredContent"]
            check(live == LAB, "the server's own: %s" % live)
            result = accounts(replayed, "replay", strict)
            shown = result["structuredContent"]
            check(sorted(shown) == sorted(LAB), "replay: %s" % shown)
            values = dict(leaves(shown))
            for at, value in leaves(LAB):
                check(stands_for(at, value, values[at]), "%s: %r was recorded as %r" % (at, value, values[at]))
            check(json.loads(result["content"][0]["text"]) == shown, "the text says something else: %s" % result["content"])
            text = pathlib.Path(c.cassette).read_text(encoding="utf-8")
            left = [secret for secret in secrets() if secret in text]
            check(not left, "left in the cassette: %s" % ", ".join(left))

    for server in ("ts1", "py1"):
        formats("ts1", "legacy", server, "stdio")
    formats("ts2", "auto", "ts2", "stdio")
    formats("ts1", "legacy", "ts1", "stdio", salt=True)
    formats("py1", "legacy", "py1", "stdio")
    formats("py2", "auto", "py2", "stdio")
    formats("ts1", "legacy", "ts1", "http")
    formats("ts2", "auto", "py2", "http")
    formats("py2", "legacy", "ts1", "http")
