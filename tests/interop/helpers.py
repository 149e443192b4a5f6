"""The helper files that `mcpreel init` writes, in real pytest, vitest and node:test. `run` has the cases below beside its
own: `add` gives them what they need of it."""

import json
import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
OFFLINE = 20  # runs without any server


def add(lab):
    """`lab` is the module that runs the cases."""
    case, Failed = lab.case, lab.Failed

    def check(holds, why):
        if not holds:
            raise Failed(why)

    class Project:
        """A project of tests with the helper file in it."""

        def __init__(self, c, runner, files):
            self.root, self.tests = c.folder / "project", c.folder / "project/tests"
            self.tests.mkdir(parents=True)
            for name in files:
                shutil.copy(HERE / runner / name, self.tests)
            lab.must(lab.BINARY, "init", runner, cwd=str(self.root))
            self.starts = self.root / "starts"
            self.env = {**lab.ENV, "MCPREEL_BIN": lab.BINARY, "STARTS": str(self.starts), "LAB_URL": "http://127.0.0.1:9/mcp"}
            # A server that notes each start, and can be taken away.
            self.server = self.root / "server"
            self.server.write_text("#!/bin/sh\necho lab >> '%s'\nexec %s\n" % (
                self.starts, " ".join("'%s'" % word for word in lab.SERVERS["py2"]())))
            self.server.chmod(0o755)
            self.env["LAB_SERVER"] = json.dumps([str(self.server)])

        def start(self, command, **env):
            return subprocess.Popen(command, cwd=str(self.root), env={**self.env, **env}, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        def run(self, command, **env):
            return self.finished(self.start(command, **env))

        def finished(self, child):
            try:
                out, _ = child.communicate(timeout=5 * lab.LIMIT)
            finally:
                child.kill()
            return child.returncode, out.decode("utf-8", "replace")

        def green(self, command, what, **env):
            status, said = self.run(command, **env)
            check(status == 0, "%s: exit status %d\n%s" % (what, status, said[-6000:]))
            return said

        def started(self):
            return len(self.starts.read_text().splitlines()) if self.starts.exists() else 0

        def cassettes(self):
            """Every cassette, whole, and that there is nothing beside them."""
            found = {}
            for path in sorted((self.tests / "cassettes").rglob("*")):
                if path.is_file():
                    check(path.name.endswith(".cassette.json"), "%s was left behind" % path)
                    found[str(path.relative_to(self.root))] = json.loads(path.read_text("utf-8"))
                else:
                    check(".partial" not in path.name, "%s was left behind" % path)
            return found

        def processes(self):
            """How many processes of servers were recorded over pipes."""
            return sum(content["servers"][process["server"]]["transport"] == "stdio"
                       for content in self.cassettes().values() for process in content.get("processes", []))

    def pytest(*more):
        return [str(lab.HOME / "pytest/bin/python"), "-m", "pytest", "-q", "-rA", "--color=no", "-p", "no:cacheprovider", *more]

    def cold_and_offline(project, c, command, later, recorded):
        """Records all of it from nothing, once each, and plays it twenty times with the servers gone, most often by the
        command `later`, which takes less time to start."""
        with c.server_http("py2") as server:
            said = project.green(command, "the first run", LAB_URL=server.url)
        cassettes = project.cassettes()
        names = recorded(said)
        check(sorted(names) == sorted(cassettes), "recorded, by what was said: %s\nthere: %s" % (
            "\n".join(names), "\n".join(cassettes)))
        check(project.started() == project.processes() > 10, "%d servers were started, %d processes recorded" % (
            project.started(), project.processes()))
        before = {name: (project.root / name).read_bytes() for name in cassettes}
        project.server.unlink()
        started = project.started()
        for turn in range(OFFLINE):
            project.green(command if turn < 2 else later, "run %d without servers" % turn, MCPREEL_MODE="none")
        check(project.started() == started, "a server was started")
        project.cassettes()
        check({name: (project.root / name).read_bytes() for name in cassettes} == before, "cassettes have changed")

    @case("helpers_pytest_cold_and_offline", "pytest", "py2")
    def pytest_cold(c):
        project = Project(c, "pytest", ["conftest.py", "echo.py", "test_sdk.py"])
        cold_and_offline(project, c, pytest("-n", "4"), pytest(), lambda said: [
            *re.findall(r"^mcpreel: recorded (\S+)$", said, re.M), "tests/cassettes/script.cassette.json"])

    @case("helpers_vitest_cold_and_offline", "vitest", "py2")
    def vitest_cold(c):
        project = Project(c, "vitest", ["sdk.test.ts", "more.test.ts"])
        (project.root / "node_modules").symlink_to(lab.HOME / "vitest/node_modules")
        command = [lab.node((20, 0)), str(lab.HOME / "vitest/node_modules/vitest/vitest.mjs"), "run", "--silent=false",
                   "--reporter=verbose", "--maxWorkers=4", "--minWorkers=4", "--testTimeout=60000"]
        cold_and_offline(project, c, command, command, lambda said: sorted({
            "tests/cassettes/" + name for name in re.findall(r"^mcpreel: recorded \d+ messages into .*/tests/cassettes/(\S+)$", said, re.M)}
            | {name for name in project.cassettes()}))

    # Two processes and one cassette, with a client that starts a process per call. Each row: the mode, whether there
    # is a cassette already, the exit status of each, and how often the server is started by both together.
    TABLE = [
        ("once", False, 0, 3), ("once", True, 0, 0), ("none", False, 1, 0), ("none", True, 0, 0), ("all", False, 0, 6),
        ("all", True, 0, 6), ("new_episodes", False, 0, 3), ("new_episodes", True, 0, 0),
    ]

    def two_processes(c, runner, files, command, ready):
        for mode, present, status, starts in TABLE:
            for at_once in (True, False):
                shutil.rmtree(c.folder / "project", ignore_errors=True)
                project = Project(c, runner, files)
                ready(project)
                if present:
                    project.green(command, "the first run")
                    project.starts.unlink()
                row = "%s, %s, %s" % (mode, "present" if present else "absent", "at once" if at_once else "one by one")
                if at_once:
                    children = [project.start(command, MCPREEL_MODE=mode) for _ in range(2)]
                    got = [project.finished(child) for child in children]
                else:
                    got = [project.run(command, MCP_CASSETTE_MODE=mode) for _ in range(2)]
                for code, said in got:
                    check(code == status, "%s: exit status %d\n%s" % (row, code, said[-4000:]))
                    check(status == 0 or "no such cassette" in said, "%s: %s" % (row, said[-4000:]))
                check(project.started() == starts, "%s: %d servers were started" % (row, project.started()))
                if status == 0:
                    check(project.processes() == 3, "%s: %d processes recorded" % (row, project.processes()))

    @case("helpers_pytest_two_processes", "pytest")
    def pytest_two(c):
        two_processes(c, "pytest", ["conftest.py", "echo.py", "talk.py", "test_shared.py"], pytest(), lambda project: None)

    @case("helpers_node_two_processes", "vitest")
    def node_two(c):
        two_processes(c, "vitest", ["shared.test.mjs", "talk.mjs"], [lab.node((20, 0)), "--test", "tests/shared.test.mjs"],
                      lambda project: shutil.copy(HERE / "pytest/echo.py", project.tests))

    def verdicts(said):
        """Each test with its outcome, and the parts of the output that are about it."""
        outcomes = dict((name, outcome) for outcome, name in re.findall(
            r"^(PASSED|FAILED|ERROR|XFAIL|XPASS) tests/test_verdicts\.py::(\w+)", said, re.M))
        parts = re.split(r"^_{3,} (?:ERROR at setup of )?(\w+) _{3,}$", said, flags=re.M)
        return outcomes, dict(zip(parts[1::2], parts[2::2]))

    TESTS = 28  # in test_verdicts.py

    # Each test that is not simply green: the outcome of the first run and of the second one, and what is said of it
    # then. None: as before.
    VERDICTS = {
        "test_miss": ("PASSED", "FAILED", 'mcpreel: no recorded answer for tools/call "echo"\n    nearest is message 2\n'
                      '    /params/arguments/text: recorded "one", asked "other"\n    if the difference does not matter, '
                      '--ignore /params/arguments/text; else record again\n  cassette tests/cassettes/test_verdicts/'
                      'test_miss.cassette.json, mode once\n'),
        "test_one_more": ("PASSED", "FAILED", "recorded once, this is call 2\n    to answer again, --repeat last"),
        "test_miss_and_failure": ("PASSED", "FAILED", "- Captured mcpreel call -"),
        "test_miss_of_a_client_in_a_fixture": ("PASSED", "FAILED", "nearest is message 2"),
        "test_miss_when_fixtures_are_taken_down": ("PASSED", "FAILED", "nearest is message 2"),
        "test_unused": ("PASSED", "FAILED", 'recorded and not asked for: message 4, tools/call "echo"'),
        "test_unused_of_a_client_in_a_fixture": ("PASSED", "FAILED", 'recorded and not asked for: message 4'),
        "test_never_started": ("FAILED", "FAILED", "no server was started: "),
        "test_never_asked_for": ("FAILED", "FAILED", "never called server_command or server_url"),
        "test_one_of_two_never_started": ("FAILED", "FAILED", "the server right was never started: "),
        "test_no_word": ("FAILED", "FAILED", "the server was started, and nothing was asked of it that a cassette could hold"),
        "test_no_such_server": ("FAILED", "FAILED", "./no-such-server: command not found"),
        "test_killed": ("PASSED", "FAILED", " was killed before it could say what was asked of it"),
        "test_no_cassette": ("FAILED", "FAILED", "no such cassette; record it first"),
        "test_no_cassette_and_nobody_minds": ("FAILED", "FAILED", "no such cassette; record it first"),
        "test_unknown_mode": ("FAILED", "FAILED", "unknown mode sometimes (--mode); valid are: once, none, all"),
        "test_unknown_setting": ("ERROR", "ERROR", "mcpreel: colour is no setting; there are mode, cassette, "),
        "test_two_servers_of_one_name": ("FAILED", "FAILED", "; name them with server="),
        "test_expected_to_fail": ("XFAIL", "XFAIL", None),
    }

    def told(c, command):
        project = Project(c, "pytest", ["conftest.py", "echo.py", "talk.py", "test_verdicts.py"])
        for turn, word in enumerate(("one", "other")):
            status, said = project.run(command, WORD=word)
            check(status == 1, "exit status %d\n%s" % (status, said[-4000:]))
            outcomes, parts = verdicts(said)
            check(len(outcomes) == TESTS, "%d tests: %s" % (len(outcomes), said[-6000:]))
            for test, outcome in outcomes.items():
                wanted = VERDICTS.get(test, ("PASSED", "PASSED", None))
                part = parts.get(test, "")
                check(outcome == wanted[turn], "run %d: %s is %s\n%s" % (turn + 1, test, outcome, part[-3000:]))
                check(not turn or not wanted[2] or wanted[2] in part, "run %d: %s says\n%s" % (turn + 1, test, part[-3000:]))
            check(len(re.findall("^(?:ERROR)", said, re.M)) == 1, "a test failed when it was over\n" + said[-3000:])
            if turn:
                check('mcpreel: tests/cassettes/test_verdicts/test_unused_is_noted.cassette.json: recorded and not asked for: '
                      'message 4, tools/call "echo"' in said, said[-3000:])
            check(" was still running after the test, and was ended" in said, said[-3000:])

    @case("helpers_pytest_verdicts", "pytest")
    def pytest_verdicts(c):
        told(c, pytest())

    @case("helpers_pytest_verdicts_xdist", "pytest")
    def pytest_verdicts_xdist(c):
        told(c, pytest("-n", "3"))

    @case("helpers_pytest_settings", "pytest")
    def settings(c):
        """From the environment, the command line and the configuration, in this order."""
        project = Project(c, "pytest", ["conftest.py", "echo.py", "talk.py", "test_shared.py"])
        (project.tests / "test_plain.py").write_text(
            "from talk import say\n\n\ndef test_plain(mcp_cassette, echo, word):\n"
            "    say(mcp_cassette.server_command(echo), word)\n")
        plain = pytest("tests/test_plain.py")
        config = project.root / "pytest.ini"

        def cassettes():
            return sorted(str(p.relative_to(project.root)) for p in project.root.rglob("*.cassette.json"))

        config.write_text("[pytest]\nmcpreel_dir = elsewhere\nmcpreel_mode = none\n")
        check(project.run(plain)[0] == 1, "mode none of the configuration")
        project.green(plain + ["-o", "mcpreel_mode=once"], "-o")
        check(cassettes() == ["elsewhere/tests/test_plain/test_plain.cassette.json"], "cassettes: %s" % cassettes())
        project.green(plain, "mode none with a cassette")
        check(project.started() == 1, "started %d" % project.started())
        project.green(plain, "MCPREEL_MODE", MCPREEL_MODE="all", WORD="two")
        check(project.run(plain + ["-o", "mcpreel_mode=all"], MCPREEL_MODE="none")[0] == 1, "MCPREEL_MODE before -o")
        project.green(plain + ["-o", "mcpreel_mode=all", "-o", "mcpreel_dir=here"], "-o twice", MCP_CASSETTE_MODE="once")
        check(len(cassettes()) == 2, "cassettes: %s" % cassettes())
        status, said = project.run(plain + ["-o", "mcpreel_binary=no-such-program"], MCPREEL_BIN="")
        check(status == 1 and "cannot find the program no-such-program" in said, said)

    @case("helpers_pytest_further_down", "pytest")
    def further_down(c):
        """A conftest.py that pytest reads only when it looks for tests."""
        project = Project(c, "pytest", [])
        shutil.rmtree(project.tests)
        lab.must(lab.BINARY, "init", "pytest", "--path", "one/tests", cwd=str(project.root))
        for name in ("echo.py", "talk.py"):
            shutil.copy(HERE / "pytest" / name, project.root / "one/tests")
        (project.root / "one/tests/test_plain.py").write_text(
            "import sys\nfrom talk import say\n\n\ndef test_plain(mcp_cassette):\n"
            "    say(mcp_cassette.server_command([sys.executable, 'one/tests/echo.py']), 'one')\n"
            "\n\ndef test_never(mcp_cassette):\n    pass\n")
        (project.root / "pytest.ini").write_text("[pytest]\nmcpreel_mode = none\nmcpreel_dir = one/tests/kept\n")
        for more, outcomes in ([], "2 failed"), (["-o", "mcpreel_mode=once"], "1 failed, 1 passed"), ([], "1 failed, 1 passed"):
            _, said = project.run(pytest(*more))
            check(re.search("^%s(, 2 warnings)? in " % outcomes, said, re.M) and "\nERROR" not in said, said[-3000:])
        kept = sorted(str(p.relative_to(project.root)) for p in project.root.rglob("*.cassette.json"))
        check(kept == ["one/tests/kept/test_plain/test_plain.cassette.json"], "cassettes: %s" % kept)

    @case("helpers_node_verdicts", "vitest")
    def node_verdicts(c):
        project = Project(c, "vitest", ["verdicts.test.mjs", "talk.mjs"])
        shutil.copy(HERE / "pytest/echo.py", project.tests)
        (project.root / "node_modules").symlink_to(lab.HOME / "vitest/node_modules")
        node = lab.node((20, 0))
        runners = {
            "vitest": ([node, str(lab.HOME / "vitest/node_modules/vitest/vitest.mjs"), "run", "--reporter=tap-flat", "--testTimeout=60000"],
                       r"^(not ok|ok) \d+ - \S+ > (.*?)(?: # .*)?$"),
            "node": ([node, "--test", "--test-reporter=tap", "tests/verdicts.test.mjs"], r"^\s*(not ok|ok) \d+ - (.*?)$"),
        }
        for name, (command, line) in runners.items():
            for turn, word in enumerate(("one", "other")):
                status, said = project.run(command, WORD=word, RUNNER=name, MCPREEL_DIR=str(project.root / name))
                outcomes = {test: outcome for outcome, test in re.findall(line, said, re.M) if ".mjs" not in test}
                wanted = {
                    "same": "ok", "miss": ("ok", "not ok")[turn], "one more": ("ok", "not ok")[turn], "allowed": "ok",
                    "unused": ("ok", "not ok")[turn], "never started": "not ok", "never asked for": "not ok", "not required": "ok",
                    "no such server": "not ok", "no cassette": "not ok", "unknown setting": "not ok", "lent": "ok",
                    "faults are an overlay": "ok", "killed": ("ok", "not ok")[turn],
                }
                check(outcomes == wanted and status == 1, "%s, run %d: %s\n%s" % (name, turn + 1, outcomes, said[-6000:]))
                for words in ["no server was started: ", "never called serverCommand", "./no-such-server: command not found",
                              "colour is no setting"] + turn * ["nearest is message 2", "this is call 2", "recorded and not asked for: message 6",
                                                                "was killed before"]:
                    check(words in said, "%s, run %d does not say %r\n%s" % (name, turn + 1, words, said[-6000:]))

    @case("helpers_pytest_faults", "pytest")
    def pytest_faults(c):
        project = Project(c, "pytest", ["conftest.py", "echo.py", "talk.py", "test_faults.py"])
        said = project.green(pytest(), "faults")
        check(" passed, 2 xfailed" in said, said[-2000:])

    @case("helpers_node_faults", "vitest")
    def node_faults(c):
        project = Project(c, "vitest", ["faults.test.mjs", "talk.mjs"])
        shutil.copy(HERE / "pytest/echo.py", project.tests)
        project.green([lab.node((20, 0)), "--test", "tests/faults.test.mjs"], "faults")

    @case("helpers_vitest_types", "vitest")
    def types(c):
        project = Project(c, "vitest", ["sdk.test.ts", "more.test.ts"])
        (project.root / "node_modules").symlink_to(lab.HOME / "vitest/node_modules")
        tsc = [lab.node((20, 0)), str(lab.HOME / "vitest/node_modules/typescript/bin/tsc"), "--noEmit", "--strict", "--target",
               "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--skipLibCheck", "--types", "node"]
        project.green(tsc + [str(path) for path in sorted(project.tests.glob("*.ts"))], "tsc")

    @case("helpers_python_3_9", "tools")
    def oldest(c):
        """The file can be read by the oldest Python that it says it needs, where there is one."""
        old = next((path for version, path in lab.pythons().items() if version == (3, 9)), None)
        if old:
            file = Project(c, "pytest", []).tests / "mcpreel_pytest.py"
            lab.must(old, "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", str(file))
