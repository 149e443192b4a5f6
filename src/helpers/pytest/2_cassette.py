# ---- Settings

@dataclasses.dataclass(frozen=True)
class Settings:
    """What the marker takes; most of it are options of `mcpreel use`, see `mcpreel use --help`."""

    mode: Optional[str] = None                # once, none, all, new_episodes
    cassette: Optional[str] = None            # a file, in place of the one named after the test
    ordering: Optional[str] = None
    ignore: Sequence[str] = ()
    ignore_value: Sequence[str] = ()
    match_inputs: Optional[str] = None
    repeat: Optional[str] = None
    strict: bool = False
    rewrite_protocol_version: bool = False
    pace: Optional[str] = None
    pace_scale: Optional[float] = None
    pace_cap_ms: Optional[int] = None
    redact: Sequence[str] = ()
    no_default_redactions: bool = False
    pii_packs: Sequence[str] = ()
    claim_wait: float = 30.0                  # seconds to wait for another test that records the same cassette
    require_all_used: bool = False            # fail when a recorded tool call was not asked for
    required: bool = True                     # fail when no server was started, or none was asked anything
    allow_misses: bool = False                # do not fail for requests that were not recorded
    binary: Optional[str] = None              # the program, in place of the one in MCPREEL_BIN or PATH

    def matching(self) -> List[str]:
        """The options of a replay."""
        found: List[str] = []
        for name in ("ordering", "match_inputs", "repeat", "pace", "pace_scale", "pace_cap_ms"):
            value = getattr(self, name)
            if value is not None:
                found += [_option(name), str(value)]
        for name in ("ignore", "ignore_value"):
            for value in _listed(getattr(self, name)):
                found += [_option(name), value]
        for name in ("strict", "rewrite_protocol_version"):
            if getattr(self, name):
                found.append(_option(name))
        return found

    def redaction(self) -> List[str]:
        """The options of a recording."""
        found = [_option("no_default_redactions")] if self.no_default_redactions else []
        for rule in _listed(self.redact):
            found += ["--redact", rule]
        for pack in _listed(self.pii_packs):
            found += ["--pii-pack", pack]
        return found


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _listed(value: Union[str, Sequence[str]]) -> List[str]:
    return [value] if isinstance(value, str) else list(value)


def _settings(given: Mapping[str, Any], onto: Settings = Settings()) -> Settings:
    known = [field.name for field in dataclasses.fields(Settings)]
    for name in given:
        if name not in known:
            raise TypeError("mcpreel: %s is no setting; there are %s" % (name, ", ".join(known)))
    return dataclasses.replace(onto, **given)


def _mode(own: Optional[str]) -> Optional[str]:
    """The mode that was said, if any: the environment goes before everything."""
    return os.environ.get("MCPREEL_MODE") or os.environ.get("MCP_CASSETTE_MODE") or own


# ---- A cassette in use

class Cassette:
    """A cassette while a test, or a script, uses it."""

    def __init__(self, path: Union[str, os.PathLike[str]], settings: Settings = Settings(), *, name: str = "script",
                 faults: Sequence[Fault] = (), require_faults: bool = True, hint: str = "") -> None:
        self.path = pathlib.Path(path).absolute()
        self.settings = settings
        self.faults = tuple(faults)
        self.notes: List[str] = []
        self._require_faults = require_faults
        self._name, self._hint = name, hint
        self._session = ""
        self._does: Optional[str] = None      # record or replay, once it has begun
        self._told: Optional[str] = None      # the mode, as mcpreel took it
        self._folder: Optional[pathlib.Path] = None
        self._servers: Dict[str, str] = {}    # what was handed out, by the name of the server
        self._doors: List[subprocess.Popen[bytes]] = []
        self._derived: List[Cassette] = []
        self._judged = False
        self._failure: Optional[str] = None   # why it could not begin, should nobody pass that on

    # -- What a test asks for

    @property
    def mode(self) -> str:
        """The mode that holds; mcpreel.toml may have one where nothing else says it."""
        return _mode(self.settings.mode) or self._told or "once"

    @property
    def recording(self) -> bool:
        """Whether the servers are recorded, and not replayed. Decides it if that has not been done."""
        return self._begin() == "record"

    def server_command(self, command: Union[str, Sequence[str]], *, server: Optional[str] = None) -> List[str]:
        """The command line for the client to start in place of the server's. `server` is the name in the cassette,
        by default that of the program; two servers in one cassette need two names."""
        words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
        if not words:
            raise ValueError("mcpreel: the server's command is empty")
        name = self._hand_out(server or os.path.basename(words[0]), " ".join(words), server is not None)
        front = self._front()
        if self.faults:
            # One server in the cassette needs no name, and its command was not always the same.
            return front + ["--stdio"] + (["--server", name] if server else [])
        return front + (["--server", name] if server else []) + ["--"] + words

    def server_url(self, url: str, *, server: Optional[str] = None, headers: Optional[Mapping[str, str]] = None,
                   header_env: Optional[Mapping[str, str]] = None) -> str:
        """The URL for the client to use in place of the server's. `headers` are sent to the server and never
        recorded; `header_env` are too, with their values taken from variables of the environment."""
        door, ready = self._open_door(url, server, headers or {}, header_env or {})
        while not ready.exists():
            self._check_door(door, url)
            time.sleep(0.005)
        return ready.read_text().strip()

    async def server_url_async(self, url: str, **more: Any) -> str:
        """The same, without holding up the event loop."""
        return str(await _aside(functools.partial(self.server_url, url, **more)))

    def with_faults(self, *faults: Fault, require: bool = True, **settings: Any) -> Cassette:
        """The same cassette with faults in its replay; further arguments are settings as in the marker. With
        `require`, a fault that never fired fails the test."""
        if not faults:
            raise ValueError("mcpreel: with_faults needs a fault, such as Fault.timeout(name=\"search\")")
        if self._does == "record":
            # What was recorded so far is what is replayed.
            self._await_processes()
            self._end()
        if not self.path.exists():
            raise CassetteError("%s: with_faults replays a cassette, and there is none yet: run the test without "
                                "faults first" % _shown(self.path))
        derived = Cassette(self.path, _settings(settings, self.settings), name=self._name + "-faults", faults=faults,
                           require_faults=require, hint=self._hint)
        self._derived.append(derived)
        return derived

    # -- Beginning

    def _binary(self) -> str:
        named = self.settings.binary or os.environ.get("MCPREEL_BIN")
        found = shutil.which(named or "mcpreel")
        if not found:
            raise CassetteError("mcpreel: cannot find the program %s; install it, or say where it is in MCPREEL_BIN or "
                                "mcpreel_binary" % (named or "mcpreel"))
        return os.path.abspath(found)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self._binary(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", errors="replace")

    def _begin(self) -> str:
        if self._does is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Two sessions of one process have two names, and a session ends with this process at the latest.
            self._session = "%s-%d@%d" % (self._name, next(SESSIONS), os.getpid())
            if self.faults:
                self._does = "replay"
            else:
                said = _mode(self.settings.mode)
                begun = self._run("begin", str(self.path), "--session", self._session,
                                  "--claim-wait", str(self.settings.claim_wait), *(["--mode", said] if said else []))
                if begun.returncode != 0:
                    self._failure = begun.stderr.strip().replace("mcpreel: ", "", 1)
                    raise CassetteError("mcpreel: " + self._failure)
                self._does, self._told = begun.stdout.split()
            # Nobody else can look into it: a URL may hold a secret.
            self._folder = pathlib.Path(tempfile.mkdtemp(prefix="mcpreel-"))
            (self._folder / "reports").mkdir()
        return self._does

    def _front(self) -> List[str]:
        """The command line as far as it is the same for every server."""
        does = self._begin()
        assert self._folder is not None
        shared = ["--session", self._session, "--report", str(self._folder / "reports")]
        if self.faults:
            overlay = self._folder / "faults.json"
            overlay.write_text(json.dumps({"faults": [fault.overlay() for fault in self.faults]}), "utf-8")
            return [self._binary(), "serve", str(self.path), *shared, "--faults", str(overlay),
                    *self.settings.matching()]
        mode = self.mode if does == "record" else "none"
        return [self._binary(), "use", "--cassette", str(self.path), "--mode", mode, *shared, "--claim-wait",
                str(self.settings.claim_wait), *self.settings.matching(), *self.settings.redaction()]

    def _hand_out(self, name: str, what: str, named: bool) -> str:
        if self._servers.setdefault(name, what) != what and not named:
            raise ValueError("mcpreel: two servers cannot both be %s in %s; name them with server=" % (
                name, _shown(self.path)))
        return name

    def _open_door(self, url: str, server: Optional[str], headers: Mapping[str, str],
                   header_env: Mapping[str, str]) -> Tuple[subprocess.Popen[bytes], pathlib.Path]:
        name = self._hand_out(server or "server", url, server is not None)
        command = self._front()
        assert self._folder is not None
        ready = self._folder / ("url%d" % len(self._doors))
        command += ["--server", name] if server else []
        command += ["--ready-file", str(ready), "--listen", "127.0.0.1:0"]
        if not self.faults:
            command += ["--url", url]
            for field in headers.items():
                command += ["--header", "%s: %s" % field]
            for field in header_env.items():
                command += ["--header-env", "%s=%s" % field]
        said = open(str(ready) + ".stderr", "wb")
        with said:
            door = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self._doors.append(door)
        return door, ready

    def _check_door(self, door: subprocess.Popen[bytes], url: str) -> None:
        if door.poll() is not None:
            assert self._folder is not None
            said = self._folder / ("url%d.stderr" % self._doors.index(door))
            raise CassetteError("%s: mcpreel ended with %d\n%s" % (
                url, door.returncode, said.read_text("utf-8", "replace").strip()))

    # -- Ending

    def running(self) -> bool:
        """Whether a server that was started has not ended yet."""
        return (any(door.poll() is None for door in self._doors) or bool(self._living())
                or any(derived.running() for derived in self._derived))

    def _reports(self) -> List[Tuple[int, Optional[Dict[str, Any]]]]:
        """What each process has said of itself, by its number. Nothing: it still runs, or was killed."""
        found: List[Tuple[int, Optional[Dict[str, Any]]]] = []
        for file in sorted((self._folder / "reports").iterdir()) if self._folder else ():
            lines = file.read_text("utf-8", "replace").splitlines()
            pid = int(re.split(r"[-.]", file.name)[0])
            found.append((pid, json.loads(lines[-1]) if lines else None))
        return found

    def _living(self) -> List[int]:
        return [pid for pid, report in self._reports() if report is None and _is_alive(pid)]

    def _await_processes(self) -> None:
        for door in self._doors:
            door.terminate()
        for door in self._doors:
            try:
                door.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                door.kill()
                door.wait()
        self._doors = []
        if _no_longer(self._living):
            return
        for pid in self._living():
            self.notes.append("process %d was still running after the test, and was ended" % pid)
            os.kill(pid, signal.SIGTERM)
        _no_longer(self._living)

    def _end(self) -> Optional[str]:
        """Ends the session, by which a recording becomes a cassette."""
        ended = self._run("end", str(self.path), "--session", self._session)
        done, self._does = self._does, None
        failed = done == "record" and (ended.returncode != 0 or not self.path.exists())
        return ended.stderr.strip().replace("mcpreel: ", "", 1) if failed else None

    def finish(self) -> str:
        """Waits for the servers, ends the session, and gives what went wrong in words, or nothing."""
        wrong = [text for text in [derived.finish() for derived in self._derived] if text]
        first, self._judged = not self._judged, True
        faulted, self._derived = bool(self._derived), []
        if self._folder is None:
            if self._failure:
                wrong.append(self._headed(self._failure))
                self._failure = None
            elif first and self.settings.required and not faulted and not wrong:
                wrong.append(self._headed("no server was asked for: the test never called server_command or server_url"))
            return "\n".join(wrong)
        self._await_processes()
        does = self._does or "record"
        ended = self._end() if self._does else None
        reports = self._reports()
        here = self._faulty(does, reports)
        if ended and not here and (reports or self.settings.required):
            here.append(ended)
        if not here:
            self._note(does, reports)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder, self._servers = None, {}
        return "\n".join(wrong + ([self._headed(*here)] if here else []))

    def _headed(self, *lines: str) -> str:
        text = "mcpreel: " + "\n".join(lines).replace("\n", "\n  ")
        text += "\n  cassette %s, mode %s" % (_shown(self.path), self.mode)
        return text + ("\n  " + self._hint if self._hint else "")

    def _faulty(self, does: str, reports: List[Tuple[int, Optional[Dict[str, Any]]]]) -> List[str]:
        wrong: List[str] = []
        rows = [row for _, row in reports if row is not None]
        for pid, row in reports:
            if row is None:
                wrong.append("process %d was killed before it could say what was asked of it" % pid)
            elif row.get("failed") or str(row.get("ended")).startswith(NOT_BEGUN):
                wrong.append(row.get("failed") or row["ended"][len(NOT_BEGUN):])
        if not self.settings.allow_misses:
            wrong += [_missed(miss) for row in rows for miss in row.get("misses", ())]
        if wrong or not self.settings.required:
            return wrong + self._unused(rows)
        if not reports:
            wrong.append("no server was started: %s was handed out, and nobody ran it" % "; ".join(
                self._servers.values()))
        else:
            # A cassette of one server is replayed for any command, so a name counts only where there are several.
            started = {row.get("server") for row in rows}
            silent = [name for name in self._servers if name not in started] if len(self._servers) > 1 else []
            wrong += ["the server %s was never started: %s" % (name, self._servers[name]) for name in silent]
            asked = sum(row.get(what) or 0 for row in rows for what in ("hits", "repeats", "recorded"))
            if not wrong and not asked:
                wrong.append("the server was started, and nothing was asked of it that a cassette could hold")
        return wrong + self._unused(rows)

    def _unused(self, rows: List[Dict[str, Any]]) -> List[str]:
        """What nobody asked for: each process says what it was not asked for, and what counts is common to all."""
        wrong: List[str] = []
        if self.settings.require_all_used:
            wrong += ["recorded and not asked for: %s" % what for what in _common(rows, "unused", _unused_words)]
        if self.faults and self._require_faults:
            wrong += ["never fired: %s" % self.faults[index] for index in _common(rows, "unfired", _itself)]
        return wrong

    def _note(self, does: str, reports: List[Tuple[int, Optional[Dict[str, Any]]]]) -> None:
        rows = [row for _, row in reports if row is not None]
        if does == "record" and self.path.exists():
            self.notes.append("recorded %s" % _shown(self.path))
        unused = [] if self.settings.require_all_used else list(_common(rows, "unused", _unused_words))
        if unused and not self.faults:
            self.notes.append("%s: recorded and not asked for: %s" % (_shown(self.path), ", ".join(unused)))

    # -- As a context manager

    def __enter__(self) -> Cassette:
        self._begin()
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        text = self.finish()
        if text and error is None:
            raise CassetteError(text)
        if text and hasattr(error, "add_note"):
            error.add_note(text)  # type: ignore[union-attr]

    async def __aenter__(self) -> Cassette:
        await _aside(self._begin)
        return self

    async def __aexit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        await _aside(functools.partial(self.__exit__, kind, error, trace))


def use_cassette(path: Union[str, os.PathLike[str]], **settings: Any) -> Cassette:
    """A cassette for a script: `with use_cassette("c.cassette.json", mode="none") as cassette:`, or `async with`."""
    return Cassette(path, _settings(settings), name=_safe(pathlib.Path(path).name.split(".")[0] or "script"))


async def _aside(work: Any) -> Any:
    """Does something that may wait, outside of asyncio's loop where one runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return work()
    return await loop.run_in_executor(None, work)


def _no_longer(living: Any) -> bool:
    until = time.monotonic() + PATIENCE
    while living():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _is_alive(pid: int) -> bool:
    if os.name == "nt":
        return True  # asking would end it
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:
        # A client that does not collect its children leaves their names behind.
        return pathlib.Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return not os.path.isdir("/proc/self")


def _missed(miss: Mapping[str, Any]) -> str:
    name = " %s" % json.dumps(miss["name"], ensure_ascii=False) if miss.get("name") else ""
    lines = [miss.get("why") or "no recorded answer for %s%s" % (miss.get("method"), name)]
    nearest = miss.get("nearest")
    if nearest:
        lines.append("  nearest is message %s" % nearest.get("message"))
        for at in nearest.get("differs", ()):
            lines.append("  %s: recorded %s, asked %s" % (at.get("path"), _value(at, "recorded"), _value(at, "live")))
    if miss.get("hint"):
        lines.append("  " + miss["hint"])
    return "\n".join(lines)


def _value(of: Mapping[str, Any], key: str) -> str:
    return json.dumps(of[key], ensure_ascii=False) if key in of else "nothing"


def _unused_words(entry: Mapping[str, Any]) -> Optional[str]:
    if entry.get("method") != "tools/call":
        return None
    return "message %s, tools/call %s" % (entry.get("message"), json.dumps(entry.get("name"), ensure_ascii=False))


def _itself(entry: Any) -> Any:
    return entry


def _common(rows: List[Dict[str, Any]], key: str, words: Any) -> List[Any]:
    """What stands under a key in the reports of all processes of a server."""
    by_server: Dict[str, List[List[Any]]] = {}
    for row in rows:
        if key in row and row.get("recorded") is None:
            found = [word for word in map(words, row[key]) if word is not None]
            by_server.setdefault(row.get("server", ""), []).append(found)
    return [entry for lists in by_server.values() for entry in lists[0] if all(entry in other for other in lists)]


def _shown(path: pathlib.Path) -> str:
    try:
        return str(path.relative_to(pathlib.Path.cwd()))
    except ValueError:
        return str(path)


def _safe(name: str) -> str:
    """A name that every file system takes, different for every name."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name.replace("[", "-", 1).rstrip("]")).strip("-.")[:80]
    function, bracket, parameters = name.partition("[")
    told = re.fullmatch(r"[A-Za-z0-9_.]{1,80}", function) and (
        not bracket or re.fullmatch(r"[a-z0-9_.-]{1,60}\]", parameters) and not parameters.startswith("-"))
    return plain if told else "%s-%s" % (plain, hashlib.sha1(name.encode("utf-8", "replace")).hexdigest()[:8])


