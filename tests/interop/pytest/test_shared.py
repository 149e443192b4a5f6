"""Two processes of pytest run this at the same time, or one after the other. The client starts a process per call."""
import pytest
from talk import say


@pytest.mark.mcp_cassette(cassette="tests/cassettes/shared.cassette.json")
def test_shared(mcp_cassette, echo):
    for text in ("one", "two", "three"):
        assert say(mcp_cassette.server_command(echo), text) == [text]
