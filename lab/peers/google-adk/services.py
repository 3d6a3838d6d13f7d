"""The session services, each in its best published configuration."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

CONNECTIONS = 16
"""How many connections to PostgreSQL are held."""


@dataclass(frozen=True)
class Opened:
    service: BaseSessionService
    store: str
    configuration: str
    uri: str
    """What `adk api_server` gets for the same store."""
    file: Path | None = None
    package: str = "google-adk"
    """The package with the service."""


def opened(store: str, location: str) -> Opened:
    """Opens the service of a store: `memory`, `sqlite`, `sqlite-database` or `postgres`, or scratchbook's service, with
    `scratchbook-` before the store."""
    if store.startswith("scratchbook-"):
        return scratchbook(store.removeprefix("scratchbook-"), location)
    if store == "memory":
        return Opened(InMemorySessionService(), "memory", "as it comes, uvloop", "memory://")
    if store == "postgres":
        url = location.replace("postgresql://", "postgresql+asyncpg://", 1)
        pool = {"pool_size": CONNECTIONS, "max_overflow": 0, "pool_pre_ping": False, "pool_timeout": 60}
        words = f"asyncpg, {CONNECTIONS} held connections without a ping before use, uvloop"
        return Opened(DatabaseSessionService(url, **pool), "postgres", words, url)
    file = Path(location).resolve() / "sessions.db"
    with_wal(file)
    if store == "sqlite":
        words = "the file in WAL mode, synchronous=FULL as it comes, uvloop"
        return Opened(SqliteSessionService(str(file)), "sqlite", words, f"sqlite:///{file}", file)
    if store == "sqlite-database":
        url = f"sqlite+aiosqlite:///{file}"
        service = DatabaseSessionService(url, pool_size=1, max_overflow=0, pool_timeout=60)
        words = "aiosqlite, one held connection, the file in WAL mode, synchronous=FULL as it comes, uvloop"
        return Opened(service, "sqlite", words, url, file)
    raise SystemExit(f"the store '{store}' is not one of memory, sqlite, sqlite-database, postgres")


def scratchbook(store: str, location: str) -> Opened:
    """Opens the service of scratchbook's Python package. The harness has put the package on the path."""
    from scratchbook.adk import ScratchbookSessionService

    file, uri = None, location
    if store == "memory":
        uri = "memory:"
    elif store == "sqlite":
        file = Path(location).resolve() / "sessions.db"
        uri = f"sqlite:///{file}"
    service = ScratchbookSessionService(uri)
    return Opened(service, store, "as it comes, with google-adk's Runner; uvloop", uri, file, "scratchbook")


def with_wal(file: Path) -> None:
    """Sets the journal mode, which is stored in the file."""
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
