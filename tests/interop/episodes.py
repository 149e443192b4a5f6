"""Mode `new_episodes` with real clients and servers. `run` has the cases below beside its own: `add` gives them what they
need of it.

A first run records some sessions. A second one goes through these and through all others: what is new comes from the live
server. A third one goes through the same in a replay, with no server. The client's user sees the same each time, which is
what is seen without mcpreel."""

import json
import pathlib

FIRST = ["common", "reads", "progress"]


def add(lab):
    """`lab` is the module that runs the cases."""
    case, Failed, same = lab.case, lab.Failed, lab.same

    def check(holds, why):
        if not holds:
            raise Failed(why)

    def names_for(client, server, http):
        """The recorded ones stand between new ones. `watch` has a list that changes: from a cassette it is the old one."""
        names = (lab.http_sessions if http else lab.sessions)(client, server)
        if "watch" in names:
            names[names.index("watch")] = "noticed"
        new = [name for name in names if name not in FIRST and name != "lists"]
        return new[:3] + ["common"] + new[3:6] + ["progress", "reads"] + new[6:] + ["lists", "formats"]

    def seen(lines, what):
        """The transcript but for the values that a cassette does not hold; the client took them all the same."""
        kept = []
        for line in filter(None, lines):
            step = json.loads(line)
            if step.get("session") == "formats" and step["step"] == 1:
                check("structuredContent" in step.get("result", {}), "%s: %s" % (what, step))
            elif step.get("session") != "formats":
                kept.append(line)
        return kept

    def appended(c, before, redacted):
        """What is in the cassette: what was there before, and live messages behind it."""
        text = pathlib.Path(c.cassette).read_text(encoding="utf-8")
        then, now = before["messages"], json.loads(text)["messages"]
        check(now[:len(then)] == then, "recorded messages have changed")
        check(len(now) > len(then) and all(m.get("origin") == "live" for m in now[len(then):]), "more than live messages was appended")
        for secret in redacted:
            check(secret not in text, "%s is in the cassette" % secret)
        left = sorted(p.name for p in c.folder.iterdir() if ".partial" in p.name)
        check(not left, "left behind: %s" % left)

    SECRETS = ["ann.lee@initech.io", "live_4eC39HqLyjWDarjtT1zdp7dc", "hunter22b"]

    def stdio(client, mode, server, door):
        @case("episodes_stdio_%s_%s__%s" % (client, mode, server), client, server)
        def body(c):
            started = c.folder / "started"
            counted = ["sh", "-c", 'echo started >> "$0"; exec "$@"', str(started)] + lab.SERVERS[server]()
            names = names_for(client, server, False)
            d = lab.sound(seen(c.drive("direct", client, mode, names, lab.SERVERS[server]()), "direct"))
            c.drive("record", client, mode, FIRST, c.observed("recorder", c.record(*counted)))
            c.ended_well("recorder", lab.SIGNALLED)
            before, starts = json.loads(pathlib.Path(c.cassette).read_text(encoding="utf-8")), started.read_text()

            def more(tag):
                session = c.session(tag)
                command = [lab.BINARY, "use", "--mode", "new_episodes", "--cassette", c.cassette] if door == "use" else [
                    lab.BINARY, "serve", c.cassette, "--new-episodes"]
                return c.observed(tag, command + session + ["--"] + counted)

            # All of it was recorded: no server is needed.
            c.drive("known", client, mode, FIRST, more("nothing"))
            c.ended_well("nothing")
            check(started.read_text() == starts, "a server was started, and nothing was new")
            check(json.loads(pathlib.Path(c.cassette).read_text(encoding="utf-8")) == before, "nothing was new, and the cassette has changed")

            m = seen(c.drive("more", client, mode, names, more("second")), "second run")
            same(d, m, "direct", "second run")
            c.ended_well("second")
            check(started.read_text() != starts, "no live server was started")
            appended(c, before, SECRETS)

            now, starts = pathlib.Path(c.cassette).read_bytes(), started.read_text()
            for tag, command in ("third", c.serve("third")), ("again", None):
                p = seen(c.drive(tag, client, mode, names, c.observed(tag, command) if command else more("fourth")), tag)
                same(m, p, "second run", tag)
                c.ended_well(tag if command else "fourth")
            check(started.read_text() == starts, "a server was started, and nothing was new any more")
            check(pathlib.Path(c.cassette).read_bytes() == now, "nothing was new any more, and the cassette has changed")

    def http(client, mode, server, door):
        @case("episodes_http_%s_%s__%s" % (client, mode, server), client, server)
        def body(c):
            names, ready = names_for(client, server, True), c.folder / "episodes.ready"

            def more(tag, url):
                ready.unlink(missing_ok=True)
                command = [lab.BINARY, "use", "--mode", "new_episodes", "--cassette", c.cassette] if door == "use" else [
                    lab.BINARY, "serve", c.cassette, "--new-episodes"]
                return lab.Process(c, tag, command + ["--url", url, "--ready-file", str(ready)], ready)

            with c.server_http(server) as there:
                d = lab.sound(seen(c.drive("direct", client, mode, names, [there.url]), "direct"))
            with c.server_http(server) as there, c.record_http(there.url) as recorder:
                c.drive("record", client, mode, FIRST, [recorder.url])
                recorder.end()
            before = json.loads(pathlib.Path(c.cassette).read_text(encoding="utf-8"))
            with c.server_http(server) as there:
                with more("second", there.url) as between:
                    m = seen(c.drive("more", client, mode, names, [between.url]), "second run")
                    same(d, m, "direct", "second run")
                    between.end()
                appended(c, before, SECRETS)
            now = pathlib.Path(c.cassette).read_bytes()
            with c.serve_http() as replayer:
                p = seen(c.drive("replay", client, mode, names, [replayer.url]), "third run")
                same(m, p, "second run", "third run")
                replayer.end()
            # Nobody is there any more, and nobody is asked.
            with more("fourth", there.url) as between:
                p = seen(c.drive("again", client, mode, names, [between.url]), "fourth run")
                same(m, p, "second run", "fourth run")
                between.end()
            check(pathlib.Path(c.cassette).read_bytes() == now, "nothing was new any more, and the cassette has changed")

    for client, mode, server, door in [
        ("py1", "legacy", "ts1", "use"), ("py2", "legacy", "py2", "serve"), ("py2", "auto", "py2", "use"),
        ("ts1", "legacy", "py1", "use"), ("ts1", "legacy", "ts1", "serve"), ("ts2", "auto", "ts2", "use"), ("ts2", "legacy", "py2", "use"),
        ("rmcp", "auto", "ts2", "use"),
    ]:
        stdio(client, mode, server, door)
    for client, mode, server, door in [
        ("py1", "legacy", "ts1", "use"), ("py2", "legacy", "py2", "use"), ("py2", "auto", "py2", "serve"),
        ("ts1", "legacy", "ts1", "use"), ("ts2", "auto", "ts2", "use"), ("ts2", "pinned", "ts2", "serve"), ("ts2", "legacy", "py2", "serve"),
    ]:
        http(client, mode, server, door)
