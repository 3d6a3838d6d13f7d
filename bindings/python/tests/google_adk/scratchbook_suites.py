"""A pytest plugin that runs google-adk's own tests on our session service. `run.py` loads it into a google-adk
checkout's pytest; no file of the checkout is changed.

- `--scratchbook=contract`: the contract tests also run on our service over every store.
- `--scratchbook=swapped`: our service on `memory:` replaces `InMemorySessionService`, wherever that is imported.
- `--scratchbook=swapped-keeping`: the same with `keep_repeated_ids`.
- `--scratchbook=own`: nothing is changed, to get the outcomes of google-adk's own service.

`--outcomes FILE` gets the outcome of each test, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

SERVERS = {"postgres": ("SCRATCHBOOK_TEST_POSTGRES", "schema"), "mariadb": ("SCRATCHBOOK_TEST_MYSQL", "table_prefix")}
"""The variable that names a server, and the parameter that gives a test its own tables there."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("scratchbook")
    group.addoption(
        "--scratchbook", choices=["own", "contract", "swapped", "swapped-keeping"], required=True, help="what is tested"
    )
    group.addoption("--outcomes", type=Path, required=True, help="where to write what became of each test")


def pytest_configure(config: pytest.Config) -> None:
    # With xdist the workers report to the process that started them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(config.getoption("--outcomes")))


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Runs after google-adk's own conftest has set its environment, before any test module is imported."""
    what = session.config.getoption("--scratchbook")
    if what == "contract":
        _join_the_contract_tests()
    elif what != "own":
        _take_the_place_of_the_one_in_memory(keep_repeated_ids=what == "swapped-keeping")


def _take_the_place_of_the_one_in_memory(*, keep_repeated_ids: bool) -> None:
    from google.adk import sessions
    from google.adk.sessions import in_memory_session_service

    from scratchbook import ScratchbookSessionService

    class InMemorySessionService(ScratchbookSessionService):
        def __init__(self) -> None:
            super().__init__("memory:", keep_repeated_ids=keep_repeated_ids)

    in_memory_session_service.InMemorySessionService = InMemorySessionService
    assert sessions.InMemorySessionService is InMemorySessionService, "it was imported before it could be swapped"


def _join_the_contract_tests() -> None:
    from tests.unittests.sessions import _conformance

    backends = [*_conformance.BACKENDS, *(_conformance._Backend(name, make) for name, make in _stores())]

    # Like google-adk's fixture, but over a longer list, because pytest has copied the original list.
    @pytest.fixture(params=backends, ids=lambda backend: backend.name)
    async def session_service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
        divergence = request.param.divergences.get(request.node.originalname)
        if divergence is not None:
            request.node.add_marker(pytest.mark.xfail(strict=True, reason=divergence))
        async with request.param.make(tmp_path) as service:
            yield service

    _conformance.session_service = session_service


_Make = Callable[[Path], contextlib.AbstractAsyncContextManager[Any]]


def _stores() -> list[tuple[str, _Make]]:
    """Our stores, empty for each test. Stores on servers are included if the environment names the server."""
    stores = [
        ("scratchbook-memory", _service(lambda folder: "memory:")),
        ("scratchbook-sqlite", _service(lambda folder: f"sqlite:///{folder}/scratchbook.db")),
    ]
    for store, (variable, parameter) in SERVERS.items():
        if uri := os.environ.get(variable):
            stores.append((f"scratchbook-{store}", _service(_of_its_own(uri, parameter))))
    return stores


def _of_its_own(uri: str, parameter: str) -> Callable[[Path], str]:
    return lambda folder: f"{uri}{'&' if '?' in uri else '?'}{parameter}=adk_{secrets.token_hex(4)}_"


def _service(uri: Callable[[Path], str]) -> _Make:
    from scratchbook import ScratchbookSessionService

    @contextlib.asynccontextmanager
    async def make(folder: Path) -> AsyncIterator[Any]:
        async with ScratchbookSessionService(uri(folder)) as service:
            yield service

    return make


class _Outcomes:
    """Records the outcome of each test: the worst of its setup, call and teardown."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = report.outcome
        if outcome == "skipped" and hasattr(report, "wasxfail"):
            outcome = "xfailed"
        if report.when == "call" or outcome != "passed":
            if self._outcomes.get(report.nodeid) != "failed":
                self._outcomes[report.nodeid] = outcome

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # A file that cannot be imported, or is skipped as a whole.
        if report.outcome != "passed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._outcomes, indent=1, sort_keys=True))
