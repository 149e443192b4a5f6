"""Faults in the replay of a cassette that the same test recorded, over pipes and over HTTP."""
import json
import urllib.request

import pytest
from mcpreel_pytest import CassetteError, Fault
from talk import HELLO, Talk, say

MORE = [
    (Fault.delay(1), "one"),
    (Fault.error(-5, "injected", data=[1]), {"code": -5, "message": "injected", "data": [1]}),
    (Fault.error(name="e*", nth="1..2", arguments={"/text": "one"}), {"code": -32603, "message": "mcpreel injected error"}),
    (Fault.stderr_noise("noise", repeat=2), "one"),
    (Fault.disconnect(), None),
    (Fault.exit(0), None),
    (Fault.duplicate(), "one"),
]


@pytest.mark.parametrize("fault, wanted", MORE, ids=lambda value: getattr(value, "type", ""))
def test_pipe(mcp_cassette, echo, fault, wanted):
    assert say(mcp_cassette.server_command(echo), "one") == ["one"]
    faulty = mcp_cassette.with_faults(fault)
    with Talk(faulty.server_command(echo)) as talk:
        got = talk.say("one")
        assert (got["error"] if isinstance(got, dict) else got) == wanted


def test_http(mcp_cassette, echo):
    assert say(mcp_cassette.server_command(echo), "one") == ["one"]
    url = mcp_cassette.with_faults(Fault.http_status(429, {"Retry-After": "7"}, method="initialize")).server_url("http://gone")
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked)
    assert (caught.value.code, caught.value.headers["Retry-After"]) == (429, "7")
    caught.value.close()


def test_none_of_it_without_a_cassette(mcp_cassette):
    with pytest.raises(CassetteError, match="there is none yet"):
        mcp_cassette.with_faults(Fault.timeout())
    mcp_cassette.settings = type(mcp_cassette.settings)(required=False)


@pytest.mark.xfail(strict=True, raises=pytest.fail.Exception)
def test_never_fired(mcp_cassette, echo):
    say(mcp_cassette.server_command(echo), "one")
    say(mcp_cassette.with_faults(Fault.timeout(nth=2)).server_command(echo), "one")


def test_never_fired_and_not_required(mcp_cassette, echo):
    say(mcp_cassette.server_command(echo), "one")
    say(mcp_cassette.with_faults(Fault.timeout(nth=2), require=False).server_command(echo), "one")


def test_one_more_call(mcp_cassette, echo):
    say(mcp_cassette.server_command(echo), "one")
    faulty = mcp_cassette.with_faults(Fault.error(nth=1), repeat="last")
    with Talk(faulty.server_command(echo)) as talk:
        assert "error" in talk.say("one")
        assert talk.say("one") == "one"


@pytest.mark.xfail(strict=True, raises=pytest.fail.Exception)
def test_wrong_overlay(mcp_cassette, echo):
    say(mcp_cassette.server_command(echo), "one")
    say(mcp_cassette.with_faults(Fault.of("tremble", {})).server_command(echo))
