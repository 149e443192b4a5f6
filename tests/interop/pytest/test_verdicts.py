"""What a test is to be told. On the first run all of them record; on the second one, WORD is another."""
import os
import signal
import subprocess

import pytest
from mcpreel_pytest import Fault, use_cassette
from talk import Talk, say

mcp = pytest.mark.mcp_cassette


def test_same(mcp_cassette, echo):
    assert say(mcp_cassette.server_command(echo), "one") == ["one"]


def test_miss(mcp_cassette, echo, word):
    say(mcp_cassette.server_command(echo), word)


def test_one_more(mcp_cassette, echo, word):
    say(mcp_cassette.server_command(echo), *["one"] * (1 if word == "one" else 2))


@mcp(allow_misses=True)
def test_miss_allowed(mcp_cassette, echo, word):
    say(mcp_cassette.server_command(echo), "one", word)


@mcp(ignore="/params/arguments/text")
def test_miss_ignored(mcp_cassette, echo, word):
    say(mcp_cassette.server_command(echo), word)


def test_miss_and_failure(mcp_cassette, echo, word):
    assert say(mcp_cassette.server_command(echo), word) == [word]


@pytest.fixture
def client(mcp_cassette, echo):
    with Talk(mcp_cassette.server_command(echo)) as talk:
        yield talk


def test_miss_of_a_client_in_a_fixture(client, word):
    client.say(word)


@pytest.fixture
def late(client, word):
    yield
    client.say(word)


def test_miss_when_fixtures_are_taken_down(late):
    pass


@mcp(require_all_used=True)
def test_unused(mcp_cassette, echo, word):
    say(mcp_cassette.server_command(echo), *["one", "two"][:1 if word == "other" else 2])


@mcp(require_all_used=True)
def test_unused_of_a_client_in_a_fixture(client, word):
    client.say("one")
    if word == "one":
        client.say("two")


@mcp(require_all_used=True)
def test_all_used_by_several_processes(mcp_cassette, echo):
    for text in ("one", "two"):
        say(mcp_cassette.server_command(echo), text)


def test_unused_is_noted(mcp_cassette, echo, word):
    say(mcp_cassette.server_command(echo), *["one", "two"][:1 if word == "other" else 2])


def test_never_started(mcp_cassette, echo):
    mcp_cassette.server_command(echo)


def test_never_asked_for(mcp_cassette):
    pass


def test_one_of_two_never_started(mcp_cassette, echo):
    say(mcp_cassette.server_command(echo, server="left"), "one")
    mcp_cassette.server_command(echo, server="right")


@mcp(required=False)
def test_not_required(mcp_cassette, echo):
    mcp_cassette.server_command(echo)


def test_no_word(mcp_cassette, echo):
    subprocess.run(mcp_cassette.server_command(echo), stdin=subprocess.DEVNULL)


def test_no_such_server(mcp_cassette):
    subprocess.run(mcp_cassette.server_command(["./no-such-server"]), stdin=subprocess.DEVNULL)


def test_killed(mcp_cassette, echo, word):
    talk = Talk(mcp_cassette.server_command(echo))
    talk.say("one")
    if word == "other":
        talk.child.send_signal(signal.SIGKILL)
    talk.close()


def test_left_running(mcp_cassette, echo, word):
    test_left_running.talk = Talk(mcp_cassette.server_command(echo))
    test_left_running.talk.say("one")


@mcp(mode="none")
def test_no_cassette(mcp_cassette, echo):
    say(mcp_cassette.server_command(echo), "one")


@mcp(mode="none")
def test_no_cassette_and_nobody_minds(mcp_cassette, echo):
    try:
        mcp_cassette.server_command(echo)
    except AssertionError:
        pass


@mcp(mode="sometimes")
def test_unknown_mode(mcp_cassette, echo):
    say(mcp_cassette.server_command(echo), "one")


@mcp(colour="green")
def test_unknown_setting(mcp_cassette):
    pass


def test_two_servers_of_one_name(mcp_cassette, echo):
    say(mcp_cassette.server_command(echo), "one")
    mcp_cassette.server_command([*echo, "other"])


@pytest.mark.xfail(strict=True)
def test_expected_to_fail(mcp_cassette, echo):
    mcp_cassette.server_command(echo)


def test_context_manager(tmp_path, echo, word):
    path = tmp_path / "c.json"
    with use_cassette(path) as cassette:
        assert cassette.recording
        assert say(cassette.server_command(echo), "one") == ["one"]
    os.environ["STARTS"] = str(tmp_path / "starts")
    try:
        with use_cassette(path, mode="none") as cassette:
            assert say(cassette.server_command(echo), "one") == ["one"]
        with pytest.raises(AssertionError, match="nearest is message 2"):
            with use_cassette(path, mode="none") as cassette:
                say(cassette.server_command(echo), "two")
        with pytest.raises(AssertionError, match="no such cassette"):
            with use_cassette(tmp_path / "d.json", mode="none"):
                pass
        with pytest.raises(KeyError) as caught:
            with use_cassette(path, mode="none") as cassette:
                say(cassette.server_command(echo), "two")
                raise KeyError("mine")
        assert "nearest is message 2" in str(getattr(caught.value, "__notes__", "nearest is message 2"))
        assert not (tmp_path / "starts").exists()
    finally:
        del os.environ["STARTS"]


def test_faults_as_an_overlay():
    faults = [
        Fault.delay(5, name="a"), Fault.timeout(nth=2), Fault.error(-1, "m", data=[1], nth=[1, 2]), Fault.malformed(),
        Fault.disconnect(server="s"), Fault.http_status(429, {"Retry-After": "1"}), Fault.session_expired(method="tools/list"),
        Fault.cut_stream(2), Fault.drip(10), Fault.duplicate(), Fault.late(), Fault.reorder(), Fault.stderr_noise("n"),
        Fault.exit(3, arguments={"/q": 1}, probability=0.5, seed=7)]
    assert [fault.overlay() for fault in faults[:3]] == [
        {"target": {"method": "tools/call", "name": "a"}, "type": "delay", "params": {"ms": 5}},
        {"target": {"method": "tools/call", "nth": 2}, "type": "timeout", "params": {}},
        {"target": {"method": "tools/call", "nth": [1, 2]}, "type": "error",
         "params": {"code": -1, "message": "m", "data": [1]}}]
    assert faults[-1].overlay()["target"] == {
        "method": "tools/call", "arguments": {"/q": 1}, "probability": 0.5, "seed": 7}
