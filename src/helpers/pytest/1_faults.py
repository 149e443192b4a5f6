"""Records the MCP servers of a test on its first run, and replays them ever after.

    async def test_weather(mcp_cassette):
        command = mcp_cassette.server_command(["npx", "-y", "server-weather"])
        ...  # start `command` as your MCP client would start the server

The cassette is tests/cassettes/<module>/<test>.cassette.json; commit it. Settings go
into a marker, and hold for one test, class or module:

    @pytest.mark.mcp_cassette(mode="none", ignore=["/params/arguments/sent_at"])

or into the configuration (mcpreel_mode, mcpreel_dir, mcpreel_binary), which
`-o mcpreel_mode=all` overrides for one run. MCPREEL_MODE goes before all of them.

A request that was not recorded, a server that was never started and a recording that
failed make the test itself fail. Without pytest: `with use_cassette("c.cassette.json")
as cassette:`, or `async with`.

This file needs Python 3.9, pytest 7 and the program `mcpreel`. Do not edit it:
`mcpreel init pytest` writes it anew, and `mcpreel init pytest --check` tells changes.
"""

# fmt: off
# ruff: noqa
from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import pytest

# The second line is what a conftest.py needs that says `from mcpreel_pytest import *`.
__all__ = ["Cassette", "CassetteError", "Fault", "Settings", "use_cassette",
           "mcp_cassette", "pytest_configure", "pytest_runtest_call", "pytest_runtest_protocol", "pytest_terminal_summary"]

PATIENCE = 5.0  # seconds that a process has to end, and after that to end by SIGTERM
SESSIONS = itertools.count(1)
NOT_BEGUN = "not begun: "  # how a report begins to say why


class CassetteError(AssertionError):
    """What was asked and what was recorded do not agree, or something could not be recorded."""


# ---- Faults

@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that goes wrong in a replay: Fault.timeout(name="search", nth=2).

    Whom it hits is said by `method` (a call of a tool where nothing is said), `server`, `name` (of a tool, prompt or
    resource, * stands for any text), `arguments` (values by JSON pointer), `nth` (a number, a list, or a range such
    as "2..4"), and `probability` with a `seed`.
    """

    type: str
    params: Mapping[str, Any]
    target: Mapping[str, Any]

    @classmethod
    def of(cls, type: str, params: Mapping[str, Any], *, method: Optional[str] = "tools/call",
           server: Optional[str] = None, name: Optional[str] = None, arguments: Optional[Mapping[str, Any]] = None,
           nth: Union[int, Sequence[int], str, None] = None, probability: Optional[float] = None,
           seed: Optional[int] = None) -> Fault:
        target = {"method": method, "server": server, "name": name, "arguments": arguments, "nth": nth,
                  "probability": probability, "seed": seed}
        return cls(type, {k: v for k, v in params.items() if v is not None},
                   {k: v for k, v in target.items() if v is not None})

    @classmethod
    def delay(cls, ms: int, **target: Any) -> Fault:
        """The answer comes so many milliseconds later."""
        return cls.of("delay", {"ms": ms}, **target)

    @classmethod
    def timeout(cls, **target: Any) -> Fault:
        """No answer comes."""
        return cls.of("timeout", {}, **target)

    @classmethod
    def error(cls, code: Optional[int] = None, message: Optional[str] = None, data: Any = None,
              **target: Any) -> Fault:
        """A JSON-RPC error in place of the answer."""
        return cls.of("error", {"code": code, "message": message, "data": data}, **target)

    @classmethod
    def malformed(cls, strategy: str = "truncate", **target: Any) -> Fault:
        """A broken answer: truncate, not_json or wrong_id."""
        return cls.of("malformed", {"strategy": strategy}, **target)

    @classmethod
    def disconnect(cls, after_response: bool = False, **target: Any) -> Fault:
        """The connection is gone."""
        return cls.of("disconnect", {"after_response": after_response}, **target)

    @classmethod
    def http_status(cls, status: int, headers: Optional[Mapping[str, str]] = None, body: Optional[str] = None,
                    **target: Any) -> Fault:
        """HTTP: a status in place of the answer, such as 429 with {"Retry-After": "1"}."""
        return cls.of("http_status", {"status": status, "headers": headers, "body": body}, **target)

    @classmethod
    def session_expired(cls, **target: Any) -> Fault:
        """HTTP: the session is over."""
        return cls.of("session_expired", {}, **target)

    @classmethod
    def cut_stream(cls, after_events: int = 0, **target: Any) -> Fault:
        """HTTP: the stream breaks off after so many events."""
        return cls.of("cut_stream", {"after_events": after_events}, **target)

    @classmethod
    def drip(cls, bytes_per_second: int, **target: Any) -> Fault:
        """The answer comes slowly."""
        return cls.of("drip", {"bytes_per_second": bytes_per_second}, **target)

    @classmethod
    def duplicate(cls, **target: Any) -> Fault:
        """The answer comes twice."""
        return cls.of("duplicate", {}, **target)

    @classmethod
    def late(cls, **target: Any) -> Fault:
        """The answer comes when the client has given up."""
        return cls.of("late", {}, **target)

    @classmethod
    def reorder(cls, within_ms: Optional[int] = None, **target: Any) -> Fault:
        """The answer comes after the next one."""
        return cls.of("reorder", {"within_ms": within_ms}, **target)

    @classmethod
    def stderr_noise(cls, text: Optional[str] = None, repeat: Optional[int] = None, **target: Any) -> Fault:
        """Something is said on standard error."""
        return cls.of("stderr_noise", {"text": text, "repeat": repeat}, **target)

    @classmethod
    def exit(cls, code: int = 1, after_response: bool = False, **target: Any) -> Fault:
        """The server ends with this status."""
        return cls.of("exit", {"code": code, "after_response": after_response}, **target)

    def overlay(self) -> Dict[str, Any]:
        """Its entry in the overlay file."""
        return {"target": dict(self.target), "type": self.type, "params": dict(self.params)}


