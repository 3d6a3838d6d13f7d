"""Appends events, and updates the callers' copies of sessions."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

from ._base import Appending, Base, Conflict, E, Flight, Place, S, no_session
from ._errors import CLASSES, AlreadyExistsError, StaleSessionError
from ._json import dumps
from ._scratchbook import advance, waits
from ._wait import wait

RETRIES = 20
"""How many times `append_retrying` tries again."""

PATIENCE = 5.0
"""How many seconds a refused append waits for other appends with the same copy of the session."""

REPEATED = "#scratchbook-repeated-"
"""The separator after a repeated id in the store. The text after it distinguishes the events."""


class Appends(Base[S, E]):
    """Methods that append events, and update the caller's copy of the session."""

    _unknown: ClassVar[Literal["kept", "refused"]] = "kept"
    """The treatment of unknown fields in actions and content. In models, only a newer google-adk can have added such
    fields."""

    async def append_event(self, session: S, event: E) -> E:
        """Appends an event. The event, its changes in all scopes and the session's update time are one commit.

        The event and its changes are also added to the caller's session. After an error, the caller's session and
        event are unchanged. The exception is an event that is a dict: it keeps its new id and time, so that appending
        it again is a retry. A partial event is returned unchanged.

        Raises:
            SessionNotFoundError: there is no such session.
            StaleSessionError: the service's conflict mode refuses the append.
            AlreadyExistsError: another event of the session has this id.
            ValueError: a key, value or time that no store can hold.
        """
        self._held(session)
        await self._append(session, event, self._conflict)
        return event

    async def append_retrying(self, session: S, make: Callable[[S], E], *, retries: int = RETRIES) -> E:
        """Appends the event that a function makes from the session, with optimistic locking by key. After a conflict,
        the session is read again and the function is called again.

        Use this for changes that no operation can express. When the event is committed, the keys that it writes still
        have the values that the function has read.

        Raises:
            StaleSessionError: every attempt ended in a conflict.
        """
        self._held(session)
        for attempt in range(retries):
            event = make(session)
            try:
                await self._append(session, event, "by_key")
                return event
            except StaleSessionError:
                # The pause grows each time. It is random, so that two writers do not wait equally long.
                await self._core.pause(min(0.2, 0.001 * 2**attempt) * (0.5 + random.random()))
            await self.refresh(session)
        event = make(session)
        await self._append(session, event, "by_key")
        return event

    async def refresh(self, session: S) -> None:
        """Updates a copy of a session from the store: its state, and the events that it has not seen yet. `temp:` keys
        are removed. If the copy was read without events, it gets all events.

        Raises:
            SessionNotFoundError: the session was deleted.
        """
        address = self._held(session)
        while True:
            seen, known = self._seen_of(session), self._ids_of(session)
            # Repeated ids cannot identify the events that the copy has.
            goes_on = seen is not None and known and not self._keeps_repeated_ids
            seq = json.loads(seen)["seq"] if goes_on and seen is not None else 0
            # Reads from the last event that the copy has seen. That event shows whether it is still the same session.
            found = await self._core.get(address, None, None, seq - 1 if seq else None)
            if found is None:
                raise no_session(address)
            fresh = self._make_session(*found)
            if seq and not known & self._ids_of(fresh):
                found = await self._core.get(address)
                if found is None:
                    raise no_session(address)
                fresh, seq = self._make_session(*found), 0
            with self._under_way.lock:
                # If an append has changed the copy in the meantime, the copy may be newer than the read: read again.
                if (self._seen_of(session), self._ids_of(session)) == (seen, known):
                    self._renew(session, fresh, seq > 0)
                    return

    async def _append(
        self, session: S, event: E, conflict: Conflict, operations: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Returns the changes of the event."""
        address = self._named(session)
        appending = self._prepare(address, event)
        if appending is None:
            return {}
        carried_out = dumps(operations) if operations is not None else None
        while True:
            mark = seen = self._seen_of(session)
            if seen is None and conflict != "merge":
                seen = await self._find_seen(session, appending.delta if conflict == "by_key" else {})
            try:
                with self._under_way.of(session) as flight:
                    outcome, written, changes = await self._send(appending, conflict, seen, carried_out)
                    if changes is not None:
                        appending = appending._replace(delta=json.loads(changes))
                    with self._under_way.lock:
                        place = self._place(session, event, appending, seen, flight, written, outcome == "stored")
                        self._take_over(session, event, appending, place)
                return appending.delta
            except StaleSessionError:
                if not await self._moves_itself(session, mark):
                    raise

    def _place(
        self,
        session: S,
        event: E,
        appending: Appending,
        seen: str | None,
        flight: Flight,
        written: str,
        is_new: bool,
    ) -> Place:
        """The place of an event among those that the copy has seen, including appends that were sent later."""
        mark = self._seen_of(session) or seen
        now, later, older = advance(mark or flight.seen, written)
        if mark is None:
            flight.seen = now
        is_last = later == 0
        if not is_new and (later is None or mark is None):
            # A copy may lack events before the point up to which it has seen the session.
            later = None if self._id_of(event) in self._ids_of(session) else later or 0
        changes = appending.delta
        if older:
            changes = {key: value for key, value in changes.items() if key not in older}
        return Place(now if mark is not None else None, later, is_last, changes)

    async def _moves_itself(self, session: S, mark: str | None) -> bool:
        """Whether another append with the same copy has advanced the session since this mark. That append may be
        stored, but not applied to the copy yet."""
        until = time.monotonic() + PATIENCE
        while self._seen_of(session) == mark:
            if not self._under_way.any(session, waits()) or time.monotonic() > until:
                return False
            await self._core.pause(0.001)
        return True

    async def _send(
        self, appending: Appending, conflict: Conflict, seen: str | None, operations: bytes | None
    ) -> tuple[str, str, bytes | None]:
        address, event_id, text, _, _ = appending
        try:
            return await self._core.append(address, text, conflict, seen, operations, self._unknown)
        except AlreadyExistsError:
            if not self._keeps_repeated_ids:
                raise
        return await self._core.append(address, with_own_id(text, event_id), conflict, seen, operations, self._unknown)

    async def _find_seen(self, session: S, delta: dict[str, Any]) -> str:
        """The writes that are included in a copy without a mark, such as a copy made from JSON. They follow from
        google-adk's rule and from the copy's values, which show whether a key to be written has changed in the
        meantime.

        Raises:
            StaleSessionError: an event after the copy's last one has updated the session, or a key to be written has
                another value than in the copy.
        """
        address = self._address_of(session)
        found = await self._core.get(address, 1)
        if found is None:
            raise no_session(address)
        stored = self._make_session(*found)
        (event_id, updated), (last_id, last_update) = self._last_of(session), self._last_of(stored)
        known, now = self._state_of(session), self._state_of(stored)
        # google-adk's contexts set new values in the copy itself. Such a value does not show what was read.
        moved = [
            key
            for key, value in delta.items()
            if known.get(key) != now.get(key) and (key not in known or known[key] != value)
        ]
        if moved or (last_update > updated and event_id != last_id):
            what = ", ".join(map(repr, moved)) or f"session {'/'.join(address)}"
            raise CLASSES["conflict"](f"{what} changed since the session was read; read it again, then try again")
        return found[1]

    def append_event_sync(self, session: S, event: E) -> E:
        """`append_event` without an event loop."""
        return wait(self.append_event(session, event))


def own_id(event_id: str) -> str:
    """An event's id as its writer gave it."""
    return event_id.partition(REPEATED)[0]


def with_own_ids(events: Iterable[dict[str, Any]], name: str = "id") -> None:
    """Restores the ids that writers gave to events, in events or in entries that refer to events."""
    for event in events:
        if name in event:
            event[name] = own_id(event[name])


def with_own_id(text: bytes, event_id: str) -> bytes:
    """An event with an id that its content makes unique. The same event always gets the same id."""
    event = json.loads(text)
    content = hashlib.sha256(json.dumps(event, sort_keys=True).encode()).hexdigest()
    return dumps({**event, "id": f"{event_id}{REPEATED}{content[:32]}"})
