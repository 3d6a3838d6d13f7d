"""Importing the data of google-adk's own services."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("google.adk")
pytest.importorskip("sqlalchemy")

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.in_memory_session_service import InMemorySessionService

import scratchbook
from scratchbook._read_adk import records

FILL = """
import asyncio, sys
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

async def fill(service, app):
    for user in ("u1", "u2"):
        session = await service.create_session(
            app_name=app, user_id=user, session_id="s", state={"first": 1, "n": 0, "user:x": 1, "app:y": user}
        )
        for n in range(3):
            delta = {"n": n, "f": -0.0, "user:x": n}
            event = Event(author="a", timestamp=1.5e9 + n, id=f"{user}-{n}", actions=EventActions(state_delta=delta))
            await service.append_event(session, event)
    await service.create_session(app_name=app, user_id="u1", session_id="empty")
    gone = await service.create_session(app_name=app, user_id="u3", session_id="gone", state={"user:kept": True})
    await service.delete_session(app_name=app, user_id="u3", session_id=gone.id)

kind, place, app = sys.argv[1:]
service = SqliteSessionService(place) if kind == "file" else DatabaseSessionService(place)
asyncio.run(fill(service, app))
"""


async def check(service: Any, app: str) -> None:
    session = await service.get_session(app_name=app, user_id="u2", session_id="s")
    assert [event.id for event in session.events] == ["u2-0", "u2-1", "u2-2"]
    assert session.events[2].timestamp == 1.5e9 + 2
    assert session.state == {"first": 1, "n": 2, "f": 0.0, "user:x": 2, "app:y": "u2"}
    assert (await service.get_session(app_name=app, user_id="u1", session_id="empty")).state == {
        "user:x": 2,
        "app:y": "u2",
    }
    await service.verify(session)


@pytest.mark.parametrize("kind", ["file", "database", "postgres"])
async def test_a_database_of_google_adks_is_brought_over_whole(kind: str, tmp_path: Path, app: str) -> None:
    if kind == "postgres":
        uri = os.environ.get("SCRATCHBOOK_TEST_POSTGRES") or pytest.skip("no PostgreSQL")
        place = source = uri.replace("postgresql://", "postgresql+asyncpg://").partition("?")[0]
    else:
        source = f"sqlite:///{tmp_path}/adk.db"
        place = f"{tmp_path}/adk.db" if kind == "file" else f"sqlite+aiosqlite:///{tmp_path}/adk.db"
    subprocess.run([sys.executable, "-c", FILL, kind, place, app], check=True, timeout=120)
    async with scratchbook.ScratchbookSessionService(f"sqlite:///{tmp_path}/ours.db") as service:
        done = await service.import_adk(source, app_name=app)
        assert done == {"sessions": 3, "events": 6, "skipped": 0, "refused": []}
        await check(service, app)
        assert await service.get_user_state(app_name=app, user_id="u3") == {"kept": True}
        # Imports again, after a value was changed here.
        await service.put_state({"x": 100}, app_name=app, user_id="u2", author="us")
        assert (await service.import_adk(source, app_name=app))["skipped"] == 3
        assert await service.get_user_state(app_name=app, user_id="u2") == {"x": 100}


async def test_a_service_in_memory_is_brought_over_too(service: Any, app: str) -> None:
    source = InMemorySessionService()
    made = await source.create_session(
        app_name=app, user_id="u", session_id="s", state={"a": 1, "user:b": 2, "app:c": 3}
    )
    await source.append_event(made, Event(author="x", actions=EventActions(state_delta={"a": 2})))
    # State without an event: it nevertheless equals the source's.
    source.sessions[app]["u"]["s"].state["a"] = 5
    done = await service.import_adk(source, app_name=app)
    assert done == {"sessions": 1, "events": 1, "skipped": 0, "refused": []}
    session = await service.get_session(app_name=app, user_id="u", session_id="s")
    assert session.state == {"a": 5, "user:b": 2, "app:c": 3}
    assert [event.author for event in session.events] == ["x", "scratchbook-import"]
    with pytest.raises(ValueError, match="app_name"):
        await service.import_adk(source)


@pytest.mark.parametrize("source", ["sessions.db", Path("sessions.db"), "memory:", "", None, 3])
async def test_what_is_no_url_is_no_source(source: Any) -> None:
    async with scratchbook.ScratchbookSessionService("memory:") as service:
        right = "sqlite:///sessions.db" if str(source) == "sessions.db" else "URL"
        with pytest.raises(scratchbook.InvalidArgumentError, match=right):
            await service.import_adk(source)


async def test_what_is_no_database_of_google_adks_says_so(tmp_path: Path) -> None:
    async with scratchbook.ScratchbookSessionService("memory:") as service:
        with pytest.raises(scratchbook.InvalidArgumentError, match="there is no file .*none.db"):
            await service.import_adk(f"sqlite:///{tmp_path}/none.db")
        assert not (tmp_path / "none.db").exists()
        (tmp_path / "empty.db").touch()
        with pytest.raises(scratchbook.InvalidArgumentError, match="no tables of google-adk"):
            await service.import_adk(f"sqlite:///{tmp_path}/empty.db")
        # A database of ours is refused, although its tables have the same names.
        async with scratchbook.SessionService(f"sqlite:///{tmp_path}/ours.db") as ours:
            await ours.open()
        with pytest.raises(scratchbook.InvalidArgumentError, match="no tables of google-adk"):
            await service.import_adk(f"sqlite:///{tmp_path}/ours.db")
        (tmp_path / "other.db").write_bytes(b"no database at all" * 100)
        with pytest.raises(scratchbook.ScratchbookError, match="file is not a database"):
            await service.import_adk(f"sqlite:///{tmp_path}/other.db")
        with pytest.raises(scratchbook.UnavailableError) as caught:
            await service.import_adk("postgresql://me:s3cret@127.0.0.1:1/db")
        assert "s3cret" not in str(caught.value)
        with pytest.raises(scratchbook.FailedPreconditionError, match="pip install pg8000"):
            await service.import_adk("postgresql+pg8000://me:s3cret@127.0.0.1:1/db")


async def test_a_session_that_cannot_be_brought_over_is_refused_and_not_said_to_be_here(app: str) -> None:
    source = InMemorySessionService()
    made = await source.create_session(app_name=app, user_id="u", session_id="s")
    for n in (0, 1, 1):
        event = Event(id="same", author="x", timestamp=1e9, actions=EventActions(state_delta={"n": n}))
        await source.append_event(made, event)
    async with scratchbook.ScratchbookSessionService("memory:") as service:
        done = await service.import_adk(source, app_name=app)
        assert (done["sessions"], done["skipped"]) == (0, 0) and "same" in done["refused"][0]["reason"]
    async with scratchbook.ScratchbookSessionService("memory:", keep_repeated_ids=True) as service:
        done = await service.import_adk(source, app_name=app)
        assert done["sessions"] == 1 and done["refused"] == []
        session = await service.get_session(app_name=app, user_id="u", session_id="s")
        assert session is not None and [event.id for event in session.events] == ["same", "same"]
        assert session.state == {"n": 1}


async def test_what_no_store_could_hold_is_left_out_by_itself_and_told(
    service: Any, app: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = InMemorySessionService()
    state = {
        "fine": 1,
        "big": 2**70,
        "nan": [float("nan")],
        "gone": scratchbook.REMOVED,
        "user:big": -(2**64),
        "user:x": 1,
    }
    made = await source.create_session(app_name=app, user_id="u", session_id="s", state=state)
    for event_id, delta in (
        ("good", {"a": 1}),
        ("too-big", {"b": 10**30, "c": 1}),
        ("nan", {"d": float("nan")}),
        ("last", {"a": 2}),
    ):
        await source.append_event(
            made, Event(id=event_id, author="x", timestamp=1e9, actions=EventActions(state_delta=delta))
        )
    with caplog.at_level("WARNING", logger="scratchbook"):
        done = await service.import_adk(source, app_name=app)
    assert (done["sessions"], done["events"]) == (1, 2)
    name = f"{app}/u/s"
    told = [{key: value for key, value in refused.items() if key != "reason"} for refused in done["refused"]]
    assert told == [
        {"session": name, "event": "nan"},
        {"session": name, "key": "big"},
        {"session": name, "key": "nan"},
        {"session": name, "key": "gone"},
        {"session": name, "key": "b"},
        {"session": name, "key": "d"},
        {"session": name, "event": "too-big"},
        {"key": f"{app}/u: big"},
    ]
    assert all(refused["reason"] for refused in done["refused"])
    assert [record.levelname for record in caplog.records] == ["WARNING"] * len(told)
    session = await service.get_session(app_name=app, user_id="u", session_id="s")
    assert [event.id for event in session.events][:2] == ["good", "last"]
    assert session.state == {"fine": 1, "a": 2, "c": 1, "user:x": 1}
    await service.verify(session)
    # Imports again: the session exists, and what is left out is reported again.
    assert (await service.import_adk(source, app_name=app))["skipped"] == 1


@pytest.mark.parametrize(("limit", "size"), [("", 5 << 20), ("?value_bytes=100", 200)])
async def test_a_value_that_is_too_large_is_left_out_by_itself(limit: str, size: int, app: str, tmp_path: Path) -> None:
    source = InMemorySessionService()
    state = {"fine": 1, "big": "x" * size}
    made = await source.create_session(app_name=app, user_id="u", session_id="s", state=state)
    for event_id, delta in (("good", {"a": 1}), ("too-big", {"b": "x" * size})):
        await source.append_event(made, Event(id=event_id, author="x", actions=EventActions(state_delta=delta)))
    async with scratchbook.ScratchbookSessionService(f"sqlite:///{tmp_path}/ours.db{limit}") as service:
        done = await service.import_adk(source, app_name=app)
        assert (done["sessions"], done["events"]) == (1, 1), done
        told = [{key: value for key, value in refused.items() if key != "reason"} for refused in done["refused"]]
        name = f"{app}/u/s"
        assert told == [
            {"session": name, "key": "big"},
            {"session": name, "key": "b"},
            {"session": name, "event": "too-big"},
        ]
        session = await service.get_session(app_name=app, user_id="u", session_id="s")
        assert session is not None and session.state == {"fine": 1, "a": 1}


async def test_a_user_of_whose_state_nothing_is_known_has_none(app: str) -> None:
    """google-adk before 2.2 returns this for a user who has sessions in a database and no state."""

    class Old:
        async def list_sessions(self, *, app_name: str) -> Any:
            return SimpleNamespace(sessions=[])

    known = {app: {"users": {"u": None}, "state": {}}}
    found = [record async for record in records(Old(), [app], known)]
    assert [record["state"] for record in found] == [{}, {}]


async def test_what_was_removed_since_an_import_stays_so(service: Any, app: str) -> None:
    source = InMemorySessionService()
    await source.create_session(app_name=app, user_id="u", session_id="s", state={"user:x": 1, "app:y": 1})
    gone = await source.create_session(app_name=app, user_id="v", session_id="t", state={"user:kept": 1})
    await source.delete_session(app_name=app, user_id="v", session_id=gone.id)
    await service.import_adk(source, app_name=app)
    # The state of a user without a session is imported too.
    assert await service.get_user_state(app_name=app, user_id="v") == {"kept": 1}
    for key in ("user:x", "app:y"):
        await service.remove((app, "u", "s"), key)
    assert (await service.import_adk(source, app_name=app))["skipped"] == 1
    assert await service.get_user_state(app_name=app, user_id="u") == await service.get_app_state(app_name=app) == {}
