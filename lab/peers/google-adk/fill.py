"""Prepares sessions in bulk. The service's tables then have the same rows as after appends, but this takes less
time."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import islice
from typing import Any

import asyncpg
from google.adk.events.event import Event
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from services import Opened
from shared.data import CREATED
from shared.measure import Preparation
from sqlalchemy import text

GROUP = 1000
"""How many rows are one transaction."""

EVENT = (
    "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
SESSION = "INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?)"


def groups(rows: Iterator[Any], preparation: Preparation) -> Iterator[list[Any]]:
    while group := list(islice(rows, GROUP)):
        yield group
        preparation.advance(len(group))


async def fill_events(opened: Opened, session: Session, events: Iterator[Event], preparation: Preparation) -> None:
    """Adds events without applying their changes to the state."""
    service = opened.service
    for group in groups(events, preparation):
        if isinstance(service, InMemorySessionService):
            service.sessions[session.app_name][session.user_id][session.id].events.extend(group)
        elif isinstance(service, DatabaseSessionService):
            row = service._get_schema_classes().StorageEvent
            await add(service, [row.from_event(session, event) for event in group])
        elif opened.package == "scratchbook":
            for event in group:
                await service.append_event(session, event)
        else:
            whose = (session.app_name, session.user_id, session.id)
            write(
                opened,
                EVENT,
                [
                    (event.id, *whose, event.invocation_id, event.timestamp, event.model_dump_json(exclude_none=True))
                    for event in group
                ],
            )


async def fill_sessions(opened: Opened, app: str, users: list[str], preparation: Preparation) -> None:
    """Creates a session for each entry. The first one is created through the service, as a program does this."""
    service = opened.service
    await service.create_session(app_name=app, user_id=users[0], state=dict(CREATED))
    for group in groups(iter(users[1:]), preparation):
        now = time.time()
        if isinstance(service, InMemorySessionService) or opened.package == "scratchbook":
            for user in group:
                await service.create_session(app_name=app, user_id=user, state=dict(CREATED))
        elif isinstance(service, DatabaseSessionService):
            row = service._get_schema_classes().StorageSession
            moment = datetime.fromtimestamp(now, timezone.utc).replace(tzinfo=None)
            names = {"app_name": app, "create_time": moment, "update_time": moment}
            rows = [row(user_id=user, id=str(uuid.uuid4()), state=dict(CREATED), **names) for user in group]
            await add(service, rows)
        else:
            state = json.dumps(CREATED)
            write(opened, SESSION, [(app, user, str(uuid.uuid4()), state, now, now) for user in group])


async def add(service: DatabaseSessionService, rows: list[Any]) -> None:
    async with service.database_session_factory() as transaction:
        transaction.add_all(rows)
        await transaction.commit()


def write(opened: Opened, statement: str, rows: list[tuple[Any, ...]]) -> None:
    database = sqlite3.connect(opened.file)
    with database:
        database.executemany(statement, rows)
    database.close()


async def disk(opened: Opened) -> int:
    """Returns how many bytes the database has, after the write-ahead log was copied into its file."""
    if opened.file is not None:
        # In a process of its own: two copies of SQLite in one process lift each other's locks.
        checkpoint = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')"
        subprocess.run([sys.executable, "-c", checkpoint, opened.file], check=True)
        return opened.file.stat().st_size
    if opened.package == "scratchbook":
        connection = await asyncpg.connect(opened.uri)
        try:
            return await connection.fetchval("SELECT pg_database_size(current_database())")
        finally:
            await connection.close()
    assert isinstance(opened.service, DatabaseSessionService)
    async with opened.service.db_engine.connect() as connection:
        return (await connection.execute(text("SELECT pg_database_size(current_database())"))).scalar_one()
