"""The stores on which each promise is tested, and shared fixtures."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

LOCAL = ("memory", "sqlite")
STORES = (*LOCAL, "postgres", "mariadb")
# What a store decides is the same for the package. So only these promises of the package are tested on servers.
ON_SERVERS = ("test_contract", "test_concurrency", "test_processes")
VARIABLES = {"postgres": "SCRATCHBOOK_TEST_POSTGRES", "mariadb": "SCRATCHBOOK_TEST_MYSQL"}

# One set of tables for a run: each test uses its own app.
_RUN = f"py_{secrets.token_hex(4)}"


def server_uri(store: str) -> str:
    """The URL of a server's database, as a SQLAlchemy user has it."""
    uri = os.environ.get(VARIABLES[store])
    if not uri:
        pytest.skip(f"{VARIABLES[store]} names no server; run by with-servers, or by cargo xtask gate")
    scheme, _, rest = uri.partition("://")
    driver, parameter = ("asyncpg", "schema") if store == "postgres" else ("aiomysql", "table_prefix")
    return f"{scheme}+{driver}://{rest}{'&' if '?' in rest else '?'}{parameter}={_RUN}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test with the fixture `uri` or `shared_uri` on each store."""
    named = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark)}
    stores = STORES if metafunc.module.__name__.rpartition(".")[2] in ON_SERVERS else LOCAL
    for fixture, kinds in (("uri", stores), ("shared_uri", stores[1:])):
        if fixture in metafunc.fixturenames and fixture not in named:
            metafunc.parametrize(fixture, kinds, indirect=True)


def _names(mark: pytest.Mark) -> list[str]:
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


@pytest.fixture
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of each kind."""
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sessions.db"
    return server_uri(request.param)


@pytest.fixture
def shared_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that several services can have open."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sessions.db"
    return server_uri(request.param)


@pytest.fixture
async def service(uri: str) -> AsyncIterator[Any]:
    """A service for google-adk on each store."""
    pytest.importorskip("google.adk")
    from scratchbook import ScratchbookSessionService

    async with ScratchbookSessionService(uri) as service:
        yield service


@pytest.fixture
async def plain(uri: str) -> AsyncIterator[Any]:
    """A service on plain dicts on each store."""
    from scratchbook import SessionService

    async with SessionService(uri) as service:
        yield service


@pytest.fixture
def app() -> Iterator[str]:
    """An app for this test only."""
    yield f"app_{secrets.token_hex(6)}"
