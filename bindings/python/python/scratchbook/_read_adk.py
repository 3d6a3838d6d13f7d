"""Reads a database of google-adk's by google-adk's own services, in a process of its own: `python -m
scratchbook._read_adk` takes the URL on standard input and writes JSON lines.

Apart because a SQLite file must not be opened by two copies of SQLite in one process, and because google-adk's
readers of old layouts take what is in them on trust.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any


async def records(
    service: Any, apps: Iterable[str], shared: dict[str, Any] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """What a session service of google-adk's has of some apps: each session with its events, then the state of each
    user and of the app."""
    for app in apps:
        users: set[str] = set()
        app_state: dict[str, Any] = {}
        for listed in (await service.list_sessions(app_name=app)).sessions:
            try:
                session = await service.get_session(app_name=app, user_id=listed.user_id, session_id=listed.id)
            except Exception as error:  # One that cannot be read stops no other.
                yield {"type": "refused", "session": f"{app}/{listed.user_id}/{listed.id}", "reason": str(error)}
                continue
            if session is None:
                continue
            users.add(session.user_id)
            app_state.update({key: value for key, value in session.state.items() if key.startswith("app:")})
            yield {
                "type": "session",
                "app": app,
                "user": session.user_id,
                "id": session.id,
                "time": session.last_update_time,
                "state": {k: v for k, v in session.state.items() if not k.startswith(("app:", "user:", "temp:"))},
                "events": [e.model_dump(mode="json", by_alias=True, exclude_none=True) for e in session.events],
            }
        known = (shared or {}).get(app, {})
        for user in sorted(users | set(known.get("users", ()))):
            state = await service.get_user_state(app_name=app, user_id=user)
            yield {"type": "state", "app": app, "user": user, "state": state}
        own = known.get("state")
        state = {key.removeprefix("app:"): value for key, value in app_state.items()} if own is None else own
        yield {"type": "state", "app": app, "user": None, "state": state}


async def _open(url: str) -> tuple[Any, dict[str, Any]]:
    """The service that reads a database, and by app its users and its state."""
    from google.adk.sessions.database_session_service import DatabaseSessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from sqlalchemy import inspect, make_url, text
    from sqlalchemy.ext.asyncio import create_async_engine

    parsed = make_url(url)
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "mysql": "mysql+aiomysql"}
    if "+" not in parsed.drivername:
        parsed = parsed.set(drivername=drivers.get(parsed.drivername, parsed.drivername))
    engine = create_async_engine(parsed)
    shared: dict[str, Any] = {}
    tables = []
    try:
        async with engine.connect() as connection:
            tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
            if "sessions" not in tables or "events" not in tables:
                raise ValueError("the database has no tables of google-adk's")
            for table in ("sessions", "user_states", "app_states"):
                columns = "app_name" if table == "app_states" else "app_name, user_id"
                rows = await connection.execute(text(f"SELECT DISTINCT {columns} FROM {table}"))
                for row in rows:
                    users = shared.setdefault(row[0], {"users": []})["users"]
                    users.extend(user for user in row[1:] if user not in users)
            for app, state in await connection.execute(text("SELECT app_name, state FROM app_states")):
                shared[app]["state"] = json.loads(state) if isinstance(state, (str, bytes)) else state
            event_columns = await connection.run_sync(
                lambda sync: {column["name"] for column in inspect(sync).get_columns("events")}
            )
    finally:
        await engine.dispose()
    # Its own layout for a file: without that table, and with events as JSON.
    if (
        parsed.get_backend_name() == "sqlite"
        and "adk_internal_metadata" not in tables
        and "event_data" in event_columns
    ):
        return SqliteSessionService(str(parsed.database)), shared
    return DatabaseSessionService(parsed.render_as_string(hide_password=False)), shared


async def _main(url: str) -> None:
    service, shared = await _open(url)
    async for record in records(service, shared, shared):
        sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(sys.stdin.read()))
