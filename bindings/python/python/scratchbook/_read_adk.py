"""Reads a google-adk database with google-adk's own services, in a separate process: `python -m scratchbook._read_adk`
reads the URL from standard input and writes JSON lines.

The process is separate because two copies of SQLite in one process must not open one file, and because google-adk's
readers of old layouts trust the contents.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Any

from ._errors import InvalidArgumentError
from ._json import check_finite, check_written_keys

DRIVERS = {"sqlite": "aiosqlite", "postgresql": "asyncpg", "mysql": "aiomysql", "mariadb": "aiomysql"}
"""The driver for a URL that names no driver."""


async def records(
    service: Any, apps: Iterable[str], shared: dict[str, Any] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """The contents of a google-adk session service for some apps: each session with its events, then the state of each
    user and of the app."""
    for app in apps:
        users: dict[str, dict[str, Any]] = {}
        app_state: dict[str, Any] = {}
        for listed in (await service.list_sessions(app_name=app)).sessions:
            try:
                session = await service.get_session(app_name=app, user_id=listed.user_id, session_id=listed.id)
            except Exception as error:  # An unreadable session does not stop the others.
                yield {"type": "refused", "session": f"{app}/{listed.user_id}/{listed.id}", "reason": str(error)}
                continue
            if session is None:
                continue
            own = users.setdefault(session.user_id, {})
            own.update({k.removeprefix("user:"): v for k, v in session.state.items() if k.startswith("user:")})
            app_state.update({key: value for key, value in session.state.items() if key.startswith("app:")})
            events = []
            for event in session.events:
                shown = event.model_dump(mode="json", by_alias=True, exclude_none=True)
                reason = _why_not(event, shown)
                if reason is None:
                    events.append(shown)
                else:
                    name = f"{app}/{session.user_id}/{session.id}"
                    yield {"type": "refused", "session": name, "event": event.id, "reason": reason}
            yield {
                "type": "session",
                "app": app,
                "user": session.user_id,
                "id": session.id,
                "time": session.last_update_time,
                "state": {k: v for k, v in session.state.items() if not k.startswith(("app:", "user:", "temp:"))},
                "events": events,
            }
        known = (shared or _in_memory(service)).get(app, {})
        for user, state in known.get("users", {}).items():
            if state is not None or user not in users:
                users[user] = state or {}
        for user, state in sorted(users.items()):
            # Before 2.2 google-adk does not return a user's state. Then the tables or the sessions show it.
            if hasattr(service, "get_user_state"):
                state = await service.get_user_state(app_name=app, user_id=user)
            yield {"type": "state", "app": app, "user": user, "state": state}
        of_app = known.get("state")
        if of_app is None:
            of_app = {key.removeprefix("app:"): value for key, value in app_state.items()}
        yield {"type": "state", "app": app, "user": None, "state": of_app}


def _why_not(event: Any, shown: dict[str, Any]) -> str | None:
    """The reason why an event differs from its JSON: pydantic writes `null` for NaN, and U+FFFD for half of a surrogate
    pair in a key."""
    text = json.dumps(shown, ensure_ascii=False).encode(errors="replace")
    try:
        check_written_keys(text, partial(event.model_dump, by_alias=True, exclude_none=True))
        if b"null" in text:
            check_finite(event.model_dump(by_alias=True, exclude_none=True))
    except InvalidArgumentError as error:
        return str(error)
    return None


def _in_memory(service: Any) -> dict[str, Any]:
    """The state of users without a session, and of apps, in an in-memory service; empty for any other service."""
    users: dict[str, Any] = getattr(service, "user_state", {})
    apps: dict[str, Any] = getattr(service, "app_state", {})
    return {app: {"users": dict(users.get(app, {})), "state": apps.get(app)} for app in {*users, *apps}}


def _columns(connection: Any) -> dict[str, set[str]]:
    """The tables of a database, and the columns of each."""
    from sqlalchemy import inspect

    found = inspect(connection)
    return {table: {column["name"] for column in found.get_columns(table)} for table in found.get_table_names()}


def _value(column: Any) -> Any:
    """The value of a JSON column, which some drivers return as text."""
    return json.loads(column) if isinstance(column, (str, bytes)) else column


async def _open(url: str) -> tuple[Any, dict[str, Any]]:
    """The service that reads a database, and for each app its users and its state. Each user comes with its state if
    the service does not return the state of users."""
    from google.adk.sessions.database_session_service import DatabaseSessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from sqlalchemy import make_url, text
    from sqlalchemy.ext.asyncio import create_async_engine

    parsed = make_url(url)
    if "+" not in parsed.drivername and parsed.drivername in DRIVERS:
        parsed = parsed.set(drivername=f"{parsed.drivername}+{DRIVERS[parsed.drivername]}")
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    if is_file and not os.path.isfile(str(parsed.database).removeprefix("file:")):
        raise ValueError(f"there is no file {parsed.database}")
    engine = create_async_engine(parsed)
    shared: dict[str, Any] = {}
    columns_of: dict[str, set[str]] = {}
    try:
        async with engine.connect() as connection:
            columns_of = await connection.run_sync(_columns)
            # Scratchbook's own tables have the same names.
            if not {"events", "user_states"} <= columns_of.keys() or not all(
                "state" in columns_of.get(table, ()) for table in ("sessions", "app_states")
            ):
                raise ValueError("the database has no tables of google-adk's")
            for table in ("sessions", "user_states", "app_states"):
                columns = "app_name" if table == "app_states" else "app_name, user_id"
                rows = await connection.execute(text(f"SELECT DISTINCT {columns} FROM {table}"))
                for row in rows:
                    shared.setdefault(row[0], {"users": {}})["users"].update(dict.fromkeys(row[1:], None))
            for app, state in await connection.execute(text("SELECT app_name, state FROM app_states")):
                shared[app]["state"] = _value(state)
            if not hasattr(DatabaseSessionService, "get_user_state"):
                for app, user, state in await connection.execute(
                    text("SELECT app_name, user_id, state FROM user_states")
                ):
                    shared[app]["users"][user] = _value(state)
    finally:
        await engine.dispose()
    # The layout of SqliteSessionService: without that table, and with events as JSON.
    if (
        parsed.get_backend_name() == "sqlite"
        and "adk_internal_metadata" not in columns_of
        and "event_data" in columns_of["events"]
    ):
        return SqliteSessionService(str(parsed.database)), shared
    return DatabaseSessionService(parsed.render_as_string(hide_password=False)), shared


def _failed(error: Exception) -> dict[str, Any]:
    """Why a source cannot be read, in one line, with the remedy if it is known."""
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").startswith("google"):
            reason = f"{error}; reading a database of google-adk takes google-adk: pip install google-adk"
        else:
            reason = f"{error}; pip install {error.name}, or name a driver in the URL that is installed"
        return {"type": "failed", "kind": "failed_precondition", "reason": reason}
    # SQLAlchemy's error contains the driver's own, and adds a link to its documentation.
    cause = getattr(error, "orig", None) or error
    kind = "unavailable" if _is_unavailable(cause) else "invalid_argument"
    first = (str(cause).strip() or repr(cause)).splitlines()[0]
    reason = first if type(cause) is ValueError else f"{type(cause).__name__}: {first}"
    return {"type": "failed", "kind": kind, "reason": reason}


def _is_unavailable(error: BaseException) -> bool:
    """Whether reading may succeed later: a server does not answer, a file is locked."""
    if type(error).__module__ == "sqlite3":
        return "locked" in str(error)
    return isinstance(error, OSError) or type(error).__name__ in ("OperationalError", "TimeoutError")


async def _main(url: str) -> None:
    try:
        service, shared = await _open(url)
        async for record in records(service, shared, shared):
            print(json.dumps(record))
    except Exception as error:
        print(json.dumps(_failed(error)))


if __name__ == "__main__":
    asyncio.run(_main(sys.stdin.read()))
