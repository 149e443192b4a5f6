"""Through the Python SDK and fastmcp, in one loop, over pipes and over HTTP."""
import pytest
from fastmcp.client.transports import StdioTransport
from mcp import Client, StdioServerParameters
from mcpreel_pytest import use_cassette

import fastmcp

pytestmark = pytest.mark.anyio


def connect(command):
    return Client(StdioServerParameters(command=command[0], args=command[1:]))


async def echo(client, text):
    return (await client.call_tool("echo", {"text": text})).content[0].text


@pytest.mark.parametrize("text", ["plain", "a/b", "a:b", "a-b", "A", "a", "ü ü", "x" * 200, "../..", ""])
async def test_names_of_parameters(mcp_cassette, lab, text):
    async with connect(mcp_cassette.server_command(lab)) as client:
        assert await echo(client, text) == text


class TestClass:
    async def test_more_than_one_call(self, mcp_cassette, lab):
        async with connect(mcp_cassette.server_command(lab)) as client:
            assert await echo(client, "one") == "one"
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}
            assert len((await client.list_tools()).tools) > 3


async def test_a_process_per_call(mcp_cassette, lab):
    for text in ("one", "two", "one"):
        async with connect(mcp_cassette.server_command(lab)) as client:
            assert await echo(client, text) == text


async def test_two_servers(mcp_cassette, lab):
    async with connect(mcp_cassette.server_command(lab, server="left")) as left:
        async with connect(mcp_cassette.server_command(lab, server="right")) as right:
            assert [await echo(left, "l"), await echo(right, "r")] == ["l", "r"]


@pytest.fixture
async def client(mcp_cassette, lab):
    async with connect(mcp_cassette.server_command(lab)) as client:
        yield client


@pytest.mark.mcp_cassette(require_all_used=True)
async def test_a_client_in_a_fixture(client):
    assert await echo(client, "fixture") == "fixture"


async def test_fastmcp(mcp_cassette, lab):
    command = mcp_cassette.server_command(lab)
    transport = StdioTransport(command=command[0], args=command[1:], keep_alive=False)
    async with fastmcp.Client(transport) as client:
        assert (await client.call_tool("add", {"a": 4, "b": 5})).structured_content == {"sum": 9}


async def test_http(mcp_cassette, lab_url):
    async with Client(mcp_cassette.server_url(lab_url)) as client:
        assert await echo(client, "http") == "http"


async def test_http_and_fastmcp(mcp_cassette, lab_url):
    async with fastmcp.Client(await mcp_cassette.server_url_async(lab_url)) as client:
        assert (await client.call_tool("add", {"a": 6, "b": 7})).structured_content == {"sum": 13}


async def test_a_context_manager_in_a_running_loop(request, lab):
    path = request.path.parent / "cassettes" / "script.cassette.json"
    async with use_cassette(path) as cassette:
        async with connect(cassette.server_command(lab)) as client:
            assert await echo(client, "script") == "script"


@pytest.mark.mcp_cassette(cassette="tests/cassettes/common.cassette.json")
@pytest.mark.parametrize("turn", range(4))
async def test_one_cassette_for_several_tests(mcp_cassette, lab, turn):
    for text in ("one", "two"):
        async with connect(mcp_cassette.server_command(lab)) as client:
            assert await echo(client, text) == text
