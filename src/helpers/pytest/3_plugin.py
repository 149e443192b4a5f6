# ---- pytest

KEY = pytest.StashKey[Cassette]()
VERDICT = pytest.StashKey[Tuple[str, List[str]]]()
OURS = pytest.StashKey[bool]()
HINT = "--options are arguments of @pytest.mark.mcp_cassette, such as ignore=[...]; -o mcpreel_mode=all records again"
NOTE = "mcpreel note"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("mcpreel_mode", "once (default), none, all or new_episodes; MCPREEL_MODE goes before it", default="")
    parser.addini("mcpreel_dir", "where the cassettes are, from the root folder (default: tests/cassettes)",
                  default="tests/cassettes")
    parser.addini("mcpreel_binary", "the program mcpreel (default: MCPREEL_BIN, or the one in PATH)", default="")


def pytest_configure(config: pytest.Config) -> None:
    names = ", ".join(field.name for field in dataclasses.fields(Settings))
    config.addinivalue_line("markers", "mcp_cassette(**settings): settings of the fixture mcp_cassette: " + names)


@pytest.fixture
def mcp_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The cassette of this test."""
    item = request.node
    cassette = _of_item(item)
    item.stash[KEY] = cassette
    yield cassette
    del item.stash[KEY]
    text = cassette.finish()
    item.stash[VERDICT] = text, cassette.notes
    if text and not item.stash.get(OURS, False):
        pytest.fail(text, pytrace=False)


def _configured(config: pytest.Config, name: str) -> str:
    try:
        return str(config.getini(name))
    except (KeyError, ValueError):
        # A conftest.py further down is read too late to announce its settings.
        pytest_addoption(config._parser)
        return str(config.getini(name))


def _of_item(item: pytest.Item) -> Cassette:
    config = item.config
    # The nearest marker goes before those of the class and the module.
    given: Dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("mcp_cassette"))):
        if marker.args:
            raise TypeError("mcpreel: the marker mcp_cassette takes named arguments only")
        given.update(marker.kwargs)
    settings = _settings(given, Settings(mode=_configured(config, "mcpreel_mode") or None,
                                         binary=_configured(config, "mcpreel_binary") or None))
    folder = config.rootpath / (_configured(config, "mcpreel_dir") or "tests/cassettes")
    if settings.cassette:
        path = config.rootpath / settings.cassette
    else:
        module, _, test = item.nodeid.partition("::")
        try:
            relative = item.path.relative_to(folder.parent)
        except ValueError:
            relative = pathlib.Path(module)
        path = folder.joinpath(*[_safe(part) for part in relative.with_suffix("").parts],
                               _safe(test.replace("::", ".")) + ".cassette.json")
    digest = hashlib.sha1(item.nodeid.encode("utf-8", "replace")).hexdigest()[:8]
    return Cassette(path, settings, name="pytest-" + digest, hint=HINT)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    cassette = item.stash.get(KEY, None)
    # A client that lives in a fixture has not ended, and its servers have not either.
    if cassette is None or cassette.running():
        return
    text = cassette.finish()
    for note in cassette.notes:
        item.add_report_section("call", NOTE, note)
    cassette.notes = []
    if not text:
        return
    if outcome.excinfo is None:
        outcome.force_exception(pytest.fail.Exception(text, pytrace=False))
    else:
        item.add_report_section("call", "mcpreel", text)


def pytest_runtest_protocol(item: pytest.Item, nextitem: Optional[pytest.Item]) -> Optional[bool]:
    """Runs a test and looks at its cassette before anything is said of it: what comes to light when the fixtures of
    the test are taken down is a failure of that test all the same."""
    plugins = item.config.pluginmanager
    if "mcp_cassette" not in getattr(item, "fixturenames", ()) or any(
            plugins.has_plugin(other) for other in ("rerunfailures", "flaky")):
        return None
    from _pytest.runner import runtestprotocol

    item.stash[OURS] = True
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    text, notes = item.stash.get(VERDICT, ("", []))
    for report in reports:
        if report.when == "call":
            report.sections += [("Captured %s call" % NOTE, note) for note in notes]
        if text and report.when == "call":
            if report.passed:
                report.outcome, report.longrepr = "failed", text
            else:
                report.sections.append(("Captured mcpreel call", text))
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    notes = [text for reports in terminalreporter.stats.values() for report in reports
             for title, text in getattr(report, "sections", ()) if NOTE in title]
    for note in dict.fromkeys(notes):
        terminalreporter.write_line("mcpreel: " + note)
