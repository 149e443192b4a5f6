import json
import os
import sys

import pytest

pytest_plugins = ["mcpreel_pytest"]

ECHO = [sys.executable, os.path.join(os.path.dirname(__file__), "echo.py")]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def lab():
    """A server of its own SDK, which notes that it was started."""
    return json.loads(os.environ["LAB_SERVER"])


@pytest.fixture
def lab_url():
    return os.environ["LAB_URL"]


@pytest.fixture
def echo():
    """A small server, and the words that this run says to it."""
    return ECHO


@pytest.fixture
def word():
    return os.environ.get("WORD", "one")
