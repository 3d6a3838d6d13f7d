"""Sessions as plain dicts, with google-adk and without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

import scratchbook

PROGRAM = """
import asyncio, importlib.util, sys
import scratchbook
from scratchbook import ScratchbookSessionService, wait

assert importlib.util.find_spec("google") is None and importlib.util.find_spec("pydantic") is None
service = ScratchbookSessionService(sys.argv[1])

async def work():
    session = await service.create_session(app_name="a", user_id="u", state={"n": 1, "user:x": [1]})
    event = {"author": "agent", "content": {"parts": [{"text": "hi"}]}}
    event["actions"] = {"stateDelta": {"n": 2, "temp:t": 3}}
    assert await service.append_event(session, event) is event and event["id"] and event["timestamp"]
    assert session["state"] == {"n": 2, "user:x": [1], "temp:t": 3}
    assert await service.increment(session, "n") == 3
    assert (await service.state_at(session, 1))["n"] == 2
    verified = await service.verify(session)
    assert (verified["events"], verified["keys"]) == (2, 1)
    async for entry in service.watch(session, start="beginning"):
        assert entry["event"]["id"] == event["id"]
        break
    try:
        await service.append_event(session, {"author": "a", "actions": {"stateDelta": {"x": {1, 2}}}})
    except ValueError as error:
        assert "pydantic" in str(error)
    else:
        raise AssertionError("a set was taken")

asyncio.run(work())
assert len(wait(service.list_sessions(app_name="a"))["sessions"]) == 1
print("good")
"""


def test_it_works_where_google_adk_and_pydantic_are_not(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", symlinks=os.name != "nt")
    folder = (
        "Lib/site-packages"
        if os.name == "nt"
        else f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    )
    package = Path(scratchbook.__file__).parent
    shutil.copytree(package, tmp_path / "env" / folder / "scratchbook")
    python = tmp_path / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    for uri in ("memory:", f"sqlite:///{tmp_path}/plain.db"):
        done = subprocess.run(
            [python, "-c", PROGRAM, uri], capture_output=True, text=True, timeout=60, env=environment, check=False
        )
        assert done.stdout == "good\n", done.stderr


async def test_a_session_is_made_moved_on_and_read_again(plain: Any, app: str) -> None:
    session = await plain.create_session(app_name=app, user_id="u", session_id="s", state={"a": 1, "user:b": 2})
    assert session["state"] == {"a": 1, "user:b": 2} and session["events"] == [] and session["lastUpdateTime"] > 0
    event = {"author": "agent", "timestamp": 12.5, "actions": {"state_delta": {"a": 2, "temp:t": 3}}}
    await plain.append_event(session, event)
    assert session["state"] == {"a": 2, "user:b": 2, "temp:t": 3} and session["events"] == [event]
    assert event["actions"]["state_delta"] == {"a": 2} and session["lastUpdateTime"] == 12.5
    piece = {"author": "agent", "partial": True, "actions": {"stateDelta": {"a": 9}}}
    assert await plain.append_event(session, piece) is piece and "id" not in piece
    await plain.remove(session, "a")
    found = await plain.get_session(app_name=app, user_id="u", session_id="s", config={"num_recent_events": 1})
    assert found["state"] == {"user:b": 2} and [e["seq"] for e in found["events"]] == [2]
    assert await plain.get_user_state(app_name=app, user_id="u") == {"b": 2}
    await plain.delete_session(app_name=app, user_id="u", session_id="s")
    assert await plain.get_session(app_name=app, user_id="u", session_id="s") is None
    with pytest.raises(ValueError):
        await plain.get_session(app_name=app, user_id="u", session_id="s", config={"num_recent_events": -1})


async def test_conflicts_are_seen_between_copies_by_key(plain: Any, app: str) -> None:
    session = await plain.create_session(app_name=app, user_id="u", state={"n": 0})
    copy = await plain.get_session(app_name=app, user_id="u", session_id=session["id"])
    tries = 0

    def make(mine: dict[str, Any]) -> dict[str, Any]:
        nonlocal tries
        tries += 1
        return {"author": "a", "actions": {"stateDelta": {"n": mine["state"]["n"] + 1}}}

    await plain.append_retrying(session, make)
    await plain.append_retrying(copy, make)
    assert tries == 3 and copy["state"] == {"n": 2} and len(copy["events"]) == 2


async def test_unknown_fields_of_an_event_are_kept_and_unknown_actions_refused(plain: Any, app: str) -> None:
    session = await plain.create_session(app_name=app, user_id="u", session_id="s")
    await plain.append_event(session, {"author": "a", "ours": {"x": 1}})
    assert (await plain.get_session(app_name=app, user_id="u", session_id="s"))["events"][0]["ours"] == {"x": 1}
    with pytest.raises(scratchbook.InvalidArgumentError, match="stateDela"):
        await plain.append_event(session, {"author": "a", "actions": {"stateDela": {"n": 1}}})
    for name in ("stateDelta", "state_delta"):
        with pytest.raises(scratchbook.InvalidArgumentError, match=f"'{name}' beside its actions"):
            await plain.append_event(session, {"author": "a", name: {"n": 1}})


async def test_what_changes_a_copy_is_not_given_names(plain: Any, app: str) -> None:
    await plain.create_session(app_name=app, user_id="u", session_id="s")
    names = (app, "u", "s")
    for call in (
        plain.refresh(names),
        plain.append_event(names, {"author": "a"}),
        plain.append_retrying(names, lambda session: {"author": "a"}),
    ):
        with pytest.raises(scratchbook.InvalidArgumentError, match="give the session as it was read"):
            await call
