"""The checkpointers, each in its best published configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

CONNECTIONS = 16
"""How many connections to PostgreSQL are held."""


@dataclass(frozen=True)
class Opened:
    saver: BaseCheckpointSaver[Any]
    configuration: str
    file: Path | None = None

    async def close(self) -> None:
        """Closes the connections; an open pool would keep the process from ending."""
        if isinstance(self.saver, AsyncPostgresSaver | AsyncSqliteSaver):
            await self.saver.conn.close()


async def opened(store: str, location: str) -> Opened:
    """Opens the checkpointer of a store: `memory`, `sqlite` or `postgres`."""
    channels = "messages and state in DeltaChannels (beta), uvloop"
    if store == "memory":
        return Opened(InMemorySaver(), channels)
    if store == "postgres":
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool = AsyncConnectionPool(
            location, min_size=CONNECTIONS, max_size=CONNECTIONS, timeout=60, kwargs=options, open=False
        )
        await pool.open()
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        return Opened(saver, f"psycopg, {CONNECTIONS} held connections, autocommit, prepared statements, {channels}")
    if store == "sqlite":
        file = Path(location) / "checkpoints.db"
        sqlite = AsyncSqliteSaver(await aiosqlite.connect(file))
        await sqlite.setup()
        return Opened(sqlite, f"aiosqlite, WAL mode, synchronous=FULL as it comes, {channels}", file)
    raise SystemExit(f"the store '{store}' is not one of memory, sqlite, postgres")
