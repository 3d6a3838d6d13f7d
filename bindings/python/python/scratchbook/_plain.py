"""The session service on plain dicts."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from ._appends import with_own_ids
from ._base import Address, Appending, Place
from ._errors import InvalidArgumentError
from ._json import dumps
from ._service import SessionServiceOf
from ._state import as_kept, change_state, insert, without_temp
from ._wait import wait


class SessionService(SessionServiceOf[dict[str, Any], dict[str, Any]]):
    """A session service for programs without google-adk: sessions and events are plain dicts in the form of ADK's JSON.

    ```
    service = SessionService("sqlite:///scratchbook.db")
    session = await service.create_session(app_name="shop", user_id="alice", state={"step": 1})
    await service.append_event(session, {"author": "agent", "actions": {"stateDelta": {"step": 2}}})
    assert session["state"] == {"step": 2}
    ```
    """

    _unknown = "refused"  # An unknown name in a dict written by hand is a mistake.

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> dict[str, Any]:
        """Lists the sessions of an app, or of one user of the app, the least recently updated first. They have their
        merged state, but no events."""
        sessions: dict[str, Any] = json.loads(await self._core.list(app_name, user_id))
        return sessions

    def list_sessions_sync(self, *, app_name: str, user_id: str | None = None) -> dict[str, Any]:
        """`list_sessions` without an event loop."""
        return wait(self.list_sessions(app_name=app_name, user_id=user_id))

    def _make_session(self, text: bytes, seen: str) -> dict[str, Any]:
        session: dict[str, Any] = json.loads(text)
        session["seen"] = json.loads(seen)
        if self._keeps_repeated_ids:
            with_own_ids(session["events"])
        return session

    def _make_event(self, text: bytes) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(text)
        with_own_ids([event])
        return event

    def _id_of(self, event: dict[str, Any]) -> str:
        return str(event["id"])

    def _new_event(self, author: str) -> dict[str, Any]:
        return {"author": author, "invocationId": f"p-{uuid.uuid4()}", "actions": {"stateDelta": {}}}

    def _address_of(self, session: dict[str, Any]) -> Address:
        return session["appName"], session["userId"], session["id"]

    def _seen_of(self, session: dict[str, Any]) -> str | None:
        seen = session.get("seen")
        return None if seen is None else json.dumps(seen)

    def _last_of(self, session: dict[str, Any]) -> tuple[str, float]:
        events = session["events"]
        return (events[-1]["id"] if events else ""), session["lastUpdateTime"]

    def _ids_of(self, session: dict[str, Any]) -> set[str]:
        return {event["id"] for event in session["events"]}

    def _renew(self, session: dict[str, Any], fresh: dict[str, Any], goes_on: bool) -> None:
        if goes_on:
            later = self._ids_of(fresh)
            kept = [event for event in session["events"] if event["id"] not in later]
            fresh["events"] = kept + fresh["events"]
        session.clear()
        session.update(fresh)

    def _state_of(self, session: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = session["state"]
        return state

    def _prepare(self, address: Address, event: dict[str, Any]) -> Appending | None:
        if not isinstance(event, dict):
            raise InvalidArgumentError(f"an event is a dict here, not a {type(event).__name__}")
        if event.get("partial"):
            return None
        for name in ("stateDelta", "state_delta"):
            if name in event:
                raise InvalidArgumentError(
                    f"the event has {name!r} beside its actions, where it would change nothing; "
                    'write {"actions": {"stateDelta": ...}}'
                )
        event_id = event.get("id") or str(uuid.uuid4())
        moment = event.get("timestamp")
        sent = {**event, "id": event_id, "timestamp": time.time() if moment is None else moment}
        name, actions, delta = _delta_of(event)
        kept, temp = without_temp(delta)
        if temp:
            sent["actions"] = {**actions, name: kept}
        text = dumps(sent)
        event["id"], event["timestamp"] = event_id, sent["timestamp"]
        return Appending(address, event_id, text, kept, temp)

    def _take_over(self, session: dict[str, Any], event: dict[str, Any], appending: Appending, place: Place) -> None:
        name, actions, delta = _delta_of(event)
        if delta or appending.delta:
            event["actions"] = {**actions, name: appending.delta}
        if place.seen is not None:
            session["seen"] = json.loads(place.seen)
        if place.later is None:
            return
        change_state(session["state"], appending.temp, place.changes)
        insert(session["events"], event, place.later)
        if place.is_last:
            session["lastUpdateTime"] = as_kept(event["timestamp"])


def _delta_of(event: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The place of an event's changes: the name, the surrounding dict, and the changes."""
    actions = event.get("actions") or {}
    name = "state_delta" if isinstance(actions, dict) and "state_delta" in actions else "stateDelta"
    delta = actions.get(name) or {} if isinstance(actions, dict) else actions
    if not isinstance(delta, dict):
        raise InvalidArgumentError(f"the actions of an event and their {name} are dicts")
    return name, actions, delta
