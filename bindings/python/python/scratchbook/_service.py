"""The session service on plain dicts, and what every session service of this package does."""

from __future__ import annotations

import hashlib
import json
import math
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from . import _url
from ._errors import CLASSES, AlreadyExistsError, InvalidArgumentError, ScratchbookError, StaleSessionError
from ._import import import_adk
from ._json import check_keys, dumps
from ._scratchbook import REMOVED, Store, advance, wait
from ._watch import Watch

S = TypeVar("S")
E = TypeVar("E")
Service = TypeVar("Service", bound="SessionServiceOf[Any, Any]")

Address = tuple[str, str, str]
"""App, user and session id: all that names a session."""

Conflict = Literal["merge", "by_key", "strict"]
"""When an append is refused for the sake of what others have committed: never, where a key that it writes was written
since the session was read, or where the session has moved at all."""

RETRIES = 20
"""How often `append_retrying` tries again."""


class _Appending(NamedTuple):
    """An event on its way."""

    address: Address
    event_id: str
    text: bytes
    delta: dict[str, Any]
    temp: dict[str, Any]


class _UnderWay:
    """Which copies of sessions have sent an append whose outcome they have not taken over yet."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    @contextmanager
    def of(self, session: object) -> Iterator[None]:
        """While an append of this copy is under way."""
        self._counts[id(session)] = self._counts.get(id(session), 0) + 1
        try:
            yield
        finally:
            count = self._counts.pop(id(session), 1) - 1
            if count > 0:
                self._counts[id(session)] = count

    def any(self, session: object) -> bool:
        return id(session) in self._counts


class SessionServiceOf(Generic[S, E]):
    """What a session service does, whatever its sessions and events are made of."""

    def __init__(self, uri: Any, *, conflict: Conflict = "merge", keep_repeated_ids: bool = False) -> None:
        """A service on the store that a URL names; it is opened at the first call.

        Args:
            uri: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://USER:PASSWORD@HOST/DB` or
                `mysql://USER:PASSWORD@HOST/DB`, with a SQLAlchemy driver in it or not.
            conflict: When an append is refused. `merge`: never; deltas merge key by key, and the later one wins a key.
                `by_key`: where a key that it writes was written since the session was read. `strict`: where the
                session has any event that this copy has not seen, as google-adk's database services do.
            keep_repeated_ids: Keep an event whose id is in the session already with other content, as google-adk's
                in-memory service does, instead of refusing it.

        Raises:
            ValueError: a URL or a mode that means nothing.
        """
        if conflict not in ("merge", "by_key", "strict"):
            raise InvalidArgumentError(f"no conflict mode is called '{conflict}'; there are merge, by_key and strict")
        self._core = Store(_url.store_uri(uri))
        self._conflict: Conflict = conflict
        self._keeps_repeated_ids = keep_repeated_ids
        self._under_way = _UnderWay()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core!r})"

    # What sessions and events are made of: for the classes below.

    def _make_session(self, text: bytes, seen: str) -> S:
        raise NotImplementedError

    def _make_event(self, text: bytes) -> E:
        raise NotImplementedError

    def _id_of(self, event: E) -> str:
        raise NotImplementedError

    def _new_event(self, author: str) -> E:
        raise NotImplementedError

    def _address_of(self, session: S) -> Address:
        raise NotImplementedError

    def _seen_of(self, session: S) -> str | None:
        raise NotImplementedError

    def _last_of(self, session: S) -> tuple[str, float]:
        """The id of the last event that a copy has, and the time of its last update."""
        raise NotImplementedError

    def _ids_of(self, session: S) -> set[str]:
        """The ids of the events that a copy has."""
        raise NotImplementedError

    def _renew(self, session: S, fresh: S, goes_on: bool) -> None:
        """Makes a copy what another one is; where that goes on, it has the later events alone."""
        raise NotImplementedError

    def _prepare(self, address: Address, event: E) -> _Appending | None:
        """An event as it goes to the store; `None` for a piece of a streamed answer."""
        raise NotImplementedError

    def _take_over(self, session: S, event: E, appending: _Appending, seen: str | None, is_new: bool) -> None:
        """Makes the caller's session and event what google-adk makes of them after an append."""
        raise NotImplementedError

    def _state_of(self, session: S) -> dict[str, Any]:
        raise NotImplementedError

    # Sessions.

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> S:
        """Makes a session; `user:` and `app:` keys of its state go to the user and the app, `temp:` keys nowhere.

        Raises:
            AlreadyExistsError: the id is taken.
        """
        check_keys(state or {})
        config = dumps({"session_id": session_id, "state": state or {}})
        return self._make_session(*await self._core.create(app_name, user_id, config))

    async def get_session(self, *, app_name: str, user_id: str, session_id: str, config: Any = None) -> S | None:
        """A session with its merged state and its events in the order of their appends; `None` where there is none.

        Args:
            config: google-adk's `GetSessionConfig`, or a dict: `num_recent_events` for the last so many, 0 for none;
                `after_timestamp` for those from a time on.
        """
        recent, after = _read(config)
        found = await self._core.get((app_name, user_id, session_id), recent, after)
        return None if found is None else self._make_session(*found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session with its events; silent where there is none. State of the user and the app stays."""
        await self._core.delete((app_name, user_id, session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user, names without `user:`."""
        state: dict[str, Any] = json.loads(await self._core.get_state(app_name, user_id))
        return state

    async def get_app_state(self, *, app_name: str) -> dict[str, Any]:
        """The state of an app, names without `app:`."""
        state: dict[str, Any] = json.loads(await self._core.get_state(app_name))
        return state

    async def open(self) -> None:
        """Opens the store now, as the first call would: a wrong URL or a database that is not there shows."""
        await self._core.open()

    async def flush(self) -> None:
        """Does nothing: what an append has returned for is stored."""

    async def close(self) -> None:
        """Ends what was begun and closes the store; every later call is refused."""
        await self._core.close()

    async def __aenter__(self: Service) -> Service:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # Appends.

    async def append_event(self, session: S, event: E) -> E:
        """Appends an event: it, its changes in all scopes and the update time, in one commit.

        The caller's session gets the event and its changes; after an error neither has changed. A partial event is
        given back as it is.

        Raises:
            SessionNotFoundError: there is no such session.
            StaleSessionError: refused by the service's conflict mode.
            AlreadyExistsError: another event of the session has this id.
            ValueError: a key, value or time that no store could hold.
        """
        return await self._append(session, event, self._conflict)

    async def append_retrying(self, session: S, make: Callable[[S], E], *, retries: int = RETRIES) -> E:
        """Appends the event that a function makes of the session, by key; where others were faster, the session is
        read again and the function asked again.

        For changes that no operation can express: what the function reads of the keys that it writes is what is
        stored when they are written.

        Raises:
            StaleSessionError: others were faster every time.
        """
        for attempt in range(retries):
            try:
                return await self._append(session, make(session), "by_key")
            except StaleSessionError:
                # Longer each time, and never for two writers the same.
                await self._core.pause(min(0.2, 0.001 * 2**attempt) * (0.5 + uuid.uuid4().int % 1000 / 1000))
            await self.refresh(session)
        return await self._append(session, make(session), "by_key")

    async def refresh(self, session: S) -> None:
        """Brings a copy of a session up to what is stored: its state, and the events after those it has seen. `temp:`
        keys are gone.

        Raises:
            SessionNotFoundError: it was deleted.
        """
        address = self._address_of(session)
        seen, known = self._seen_of(session), self._ids_of(session)
        seq = json.loads(seen)["seq"] if seen is not None and known else 0
        # From the last event seen on, that one included: it tells whether this is still the same session.
        found = await self._core.get(address, None, None, seq - 1 if seq else None)
        if found is None:
            raise _no_session(address)
        fresh = self._make_session(*found)
        if seq and not known & self._ids_of(fresh):
            found = await self._core.get(address)
            if found is None:
                raise _no_session(address)
            fresh, seq = self._make_session(*found), 0
        self._renew(session, fresh, seq > 0)

    async def _append(self, session: S, event: E, conflict: Conflict, operations: dict[str, Any] | None = None) -> E:
        address = self._address_of(session)
        appending = self._prepare(address, event)
        if appending is None:
            return event
        carried_out = dumps(operations) if operations is not None else None
        while True:
            mark = seen = self._seen_of(session)
            if seen is None and conflict != "merge":
                seen = await self._find_seen(session)
            try:
                with self._under_way.of(session):
                    outcome, written, changes = await self._send(appending, conflict, seen, carried_out)
                    if changes is not None:
                        appending = appending._replace(delta=json.loads(changes))
                    now = self._seen_of(session) or seen
                    advanced = None if now is None else advance(now, written)
                    self._take_over(session, event, appending, advanced, outcome == "stored")
                return event
            except StaleSessionError:
                # Not where it was this copy itself that has moved the session on, by another append of its holder: that
                # one may be stored and not taken over yet.
                while self._seen_of(session) == mark:
                    if not self._under_way.any(session):
                        raise
                    await self._core.pause(0.001)

    async def _send(
        self, appending: _Appending, conflict: Conflict, seen: str | None, operations: bytes | None
    ) -> tuple[str, str, bytes | None]:
        address, event_id, text, _, _ = appending
        try:
            return await self._core.append(address, text, conflict, seen, operations)
        except AlreadyExistsError:
            if not self._keeps_repeated_ids:
                raise
        return await self._core.append(address, _with_own_id(text, event_id), conflict, seen, operations)

    async def _find_seen(self, session: S) -> str:
        """What a copy has seen that has lost its mark, as one has that was made from JSON: google-adk's own rule.

        Raises:
            StaleSessionError: it was updated since, by an event that is not the copy's last.
        """
        address = self._address_of(session)
        found = await self._core.get(address, 1)
        if found is None:
            raise _no_session(address)
        stored = self._make_session(*found)
        (event_id, updated), (last_id, last_update) = self._last_of(session), self._last_of(stored)
        if last_update > updated and event_id != last_id:
            raise CLASSES["conflict"](
                f"session {'/'.join(address)} was updated since it was read; read it again, then try again"
            )
        return found[1]

    # State, by operations that the store carries out on what it finds.

    async def increment(
        self, session: S | Address, key: str, by: int | float = 1, *, author: str = "user"
    ) -> int | float:
        """Makes a number larger, in the commit: none of many at the same time is lost. Gives the number it became.

        An absent key counts as 0. With it an event is appended, as with every change.
        """
        changed = await self._apply(session, key, {"increment": by}, author)
        number: int | float = changed[key]
        return number

    async def append_to(self, session: S | Address, key: str, item: Any, *, author: str = "user") -> list[Any]:
        """Puts an item at the end of a list, in the commit; an absent key counts as an empty one. Gives the list."""
        changed = await self._apply(session, key, {"append": item}, author)
        items: list[Any] = changed[key]
        return items

    async def merge(self, session: S | Address, key: str, patch: Any, *, author: str = "user") -> Any:
        """Changes an object by a JSON Merge Patch (RFC 7386), in the commit: members replace those found, `None` takes
        one out. Gives what it became.
        """
        return (await self._apply(session, key, {"mergePatch": patch}, author))[key]

    async def remove(self, session: S | Address, key: str, *, author: str = "user") -> None:
        """Removes a key: it is gone, from the caller's `session.state` as well."""
        await self._apply(session, key, "remove", author)

    async def _apply(self, session: S | Address, key: str, operation: Any, author: str) -> dict[str, Any]:
        event = self._new_event(author)
        if isinstance(session, tuple):
            appending = self._prepare(session, event)
            assert appending is not None
            answer = await self._send(appending, "merge", None, dumps({key: [operation]}))
            changed: dict[str, Any] = json.loads(answer[2] or b"{}")
            return changed
        if key.startswith("temp:"):
            raise InvalidArgumentError(f"'{key}' is never stored; set it in the session's state")
        await self._append(session, event, "merge", {key: [operation]})
        return self._state_of(session)

    # The past.

    async def state_at(self, session: S | Address, at: int | str | E) -> dict[str, Any]:
        """The merged state as it stood when an event had just been committed.

        Args:
            at: The event, its id or its number; 0 for the session's creation.
        """
        address = self._named(session)
        state: dict[str, Any] = json.loads(await self._core.state_at(address, await self._seq(address, at)))
        return state

    async def diff(self, session: S | Address, before: int | str | E, after: int | str | E) -> dict[str, Any]:
        """The keys that differ between two events, each with what it had `before` and has `after`."""
        address = self._named(session)
        first, second = await self._seq(address, before), await self._seq(address, after)
        keys: dict[str, Any] = json.loads(await self._core.diff(address, first, second))
        return keys

    async def history(self, session: S | Address, key: str, *, limit: int = 100) -> list[dict[str, Any]]:
        """What was written to a key and by whom, the latest first; a removal has no `value`."""
        writes: list[dict[str, Any]] = json.loads(await self._core.history(self._named(session), key, limit))
        return writes

    async def blame(self, session: S | Address) -> dict[str, dict[str, Any]]:
        """Who wrote each key of a session's merged state."""
        writers: dict[str, dict[str, Any]] = json.loads(await self._core.blame(self._named(session)))
        return writers

    async def rewind(self, session: S | Address, before_invocation_id: str) -> E:
        """Takes a session back to before an invocation: its keys get the values they had then, those that were not
        there are gone. State of the user and the app stays. Gives the event that does it; a session that was given
        is read again.
        """
        text = await self._core.rewind(self._named(session), before_invocation_id)
        if not isinstance(session, tuple):
            await self.refresh(session)
        return self._make_event(text)

    async def fork(self, session: S | Address, *, at: int | str | E | None = None, session_id: str | None = None) -> S:
        """A new session of the same user with the events up to one, and the state as it stood then."""
        address = self._named(session)
        seq = None if at is None else await self._seq(address, at)
        return self._make_session(*await self._core.fork(address, seq, session_id))

    async def verify(
        self, session: S | Address | None = None, *, app_name: str | None = None, user_id: str | None = None
    ) -> dict[str, int]:
        """Computes a session's state anew from its events, or that of an app or a user from its log, and compares it
        with what is stored. Says how many `events` and `keys` were looked at.

        Raises:
            DataCorruptedError: names the first difference.
        """
        if session is not None:
            address = self._named(session)
            text = await self._core.verify(address)
            if text is None:
                raise _no_session(address)
        elif app_name is not None:
            text = await self._core.verify_state(app_name, user_id)
        else:
            raise InvalidArgumentError("verify what? give a session, or an app_name with a user_id or without")
        verified: dict[str, int] = json.loads(text)
        return verified

    async def put_state(
        self, changes: dict[str, Any], *, app_name: str, user_id: str | None = None, author: str
    ) -> None:
        """Changes state of a user, or of an app, outside of any session; it is logged with its author.

        Args:
            changes: Values by key, without prefix; `REMOVED` removes a key.
        """
        check_keys(changes)
        steps = {
            key: ["remove" if isinstance(value, str) and value == REMOVED else {"set": value}]
            for key, value in changes.items()
        }
        await self._core.put_state(app_name, user_id, dumps(steps), author)

    async def import_adk(self, source: Any, *, app_name: str | None = None) -> dict[str, Any]:
        """Brings over the sessions of google-adk's: each whole, in one commit. What is here already is left as it is,
        so that it can be done again.

        Args:
            source: The URL of a database that google-adk's `DatabaseSessionService` or `SqliteSessionService` has
                filled, or one of its services, such as an `InMemorySessionService`. A database is read by google-adk
                in a process of its own.
            app_name: Only this app; has to be said of a service.

        Returns:
            How many `sessions` with how many `events` were written, how many were `skipped` since they are here, and
            what was `refused` and why.
        """
        return await import_adk(self._core, source, app_name)

    def watch(
        self,
        session: S | Address | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        key_prefix: str = "",
        start: Literal["now", "beginning"] = "now",
        cursor: str | None = None,
    ) -> Watch:
        """Follows what is committed: to a session, or to all of an app or of one user of it, by whomever.

        ```
        async for entry in service.watch(app_name="shop", user_id="alice"):
            print(entry["event"]["actions"]["stateDelta"], entry["cursor"])
        ```

        Args:
            key_prefix: Only what changes a key that begins so, scope and all: `user:cart`.
            start: From `now`, or from the `beginning`.
            cursor: After an entry that was given before, here or in another process: nothing is left out in between.
        """
        if session is not None:
            named: tuple[str, str | None, str | None] = self._named(session)
        elif app_name is not None:
            named = (app_name, user_id, None)
        else:
            raise InvalidArgumentError("watch what? give a session, or an app_name with a user_id or without")
        return Watch(self._core.watch(named, key_prefix, start, cursor))

    def _named(self, session: S | Address) -> Address:
        return session if isinstance(session, tuple) else self._address_of(session)

    async def _seq(self, address: Address, at: int | str | E) -> int:
        if isinstance(at, int):
            return at
        event_id = at if isinstance(at, str) else self._id_of(at)
        return await self._core.seq_of(address, event_id)

    # Without an event loop.

    def create_session_sync(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> S:
        """`create_session`, waited for."""
        return wait(self.create_session(app_name=app_name, user_id=user_id, state=state, session_id=session_id))

    def get_session_sync(self, *, app_name: str, user_id: str, session_id: str, config: Any = None) -> S | None:
        """`get_session`, waited for."""
        return wait(self.get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config))

    def delete_session_sync(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """`delete_session`, waited for."""
        wait(self.delete_session(app_name=app_name, user_id=user_id, session_id=session_id))

    def append_event_sync(self, session: S, event: E) -> E:
        """`append_event`, waited for."""
        return wait(self.append_event(session, event))


REPEATED = "#scratchbook-repeated-"
"""What a repeated id is told apart by in the store."""


def own_id(event_id: str) -> str:
    """An event's id as its writer gave it."""
    return event_id.partition(REPEATED)[0]


def _with_own_id(text: bytes, event_id: str) -> bytes:
    """An event with an id that its content makes its own: the same event again has the same one."""
    event = json.loads(text)
    content = hashlib.sha256(json.dumps(event, sort_keys=True).encode()).hexdigest()
    return dumps({**event, "id": f"{event_id}{REPEATED}{content[:32]}"})


def _no_session(address: Address) -> ScratchbookError:
    return CLASSES["not_found"](f"session not found: {'/'.join(address)}; create it first")


def _read(config: Any) -> tuple[int | None, float | None]:
    if config is None:
        return None, None
    if isinstance(config, dict):
        recent, after = config.get("num_recent_events"), config.get("after_timestamp")
    else:
        recent, after = config.num_recent_events, config.after_timestamp
    if recent is not None and recent < 0:
        raise InvalidArgumentError("num_recent_events must be greater than or equal to 0")
    return recent, after


class SessionService(SessionServiceOf[dict[str, Any], dict[str, Any]]):
    """Sessions and events as plain dicts, spelled as in ADK's JSON; for programs without google-adk.

    ```
    service = SessionService("sqlite:///sessions.db")
    session = await service.create_session(app_name="shop", user_id="alice", state={"step": 1})
    await service.append_event(session, {"author": "agent", "actions": {"stateDelta": {"step": 2}}})
    assert session["state"] == {"step": 2}
    ```
    """

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> dict[str, Any]:
        """All sessions of an app, or of one user of it, the one updated longest ago first; state merged, no events."""
        sessions: dict[str, Any] = json.loads(await self._core.list(app_name, user_id))
        return sessions

    def list_sessions_sync(self, *, app_name: str, user_id: str | None = None) -> dict[str, Any]:
        """`list_sessions`, waited for."""
        return wait(self.list_sessions(app_name=app_name, user_id=user_id))

    def _make_session(self, text: bytes, seen: str) -> dict[str, Any]:
        session: dict[str, Any] = json.loads(text)
        session["seen"] = json.loads(seen)
        if self._keeps_repeated_ids:
            for event in session["events"]:
                event["id"] = own_id(event["id"])
        return session

    def _make_event(self, text: bytes) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(text)
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

    def _prepare(self, address: Address, event: dict[str, Any]) -> _Appending | None:
        if event.get("partial"):
            return None
        event_id = event.get("id") or str(uuid.uuid4())
        moment = event.get("timestamp")
        sent = {**event, "id": event_id, "timestamp": time.time() if moment is None else moment}
        name, actions, delta = _delta_of(event)
        kept, temp = without_temp(delta)
        if temp:
            sent["actions"] = {**actions, name: kept}
        text = dumps(sent)
        event["id"], event["timestamp"] = event_id, sent["timestamp"]
        return _Appending(address, event_id, text, kept, temp)

    def _take_over(
        self,
        session: dict[str, Any],
        event: dict[str, Any],
        appending: _Appending,
        seen: str | None,
        is_new: bool,
    ) -> None:
        name, actions, delta = _delta_of(event)
        if delta or appending.delta:
            event["actions"] = {**actions, name: appending.delta}
        if seen is not None:
            session["seen"] = json.loads(seen)
        if not is_new and any(known["id"] == event["id"] for known in session["events"]):
            return
        change_state(session["state"], appending.temp, appending.delta)
        session["events"].append(event)
        session["lastUpdateTime"] = as_kept(event["timestamp"])


def _delta_of(event: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Where an event has its changes: the name, what is around them, and they themselves."""
    actions = event.get("actions") or {}
    name = "state_delta" if "state_delta" in actions else "stateDelta"
    return name, actions, actions.get(name) or {}


def without_temp(delta: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The changes that are stored, and those that are not.

    Raises:
        InvalidArgumentError: a key is no string.
    """
    check_keys(delta)
    kept = {key: value for key, value in delta.items() if not key.startswith("temp:")}
    return kept, {} if len(kept) == len(delta) else {key: value for key, value in delta.items() if key not in kept}


def as_kept(seconds: float) -> float:
    """A time as the time of a session's last update is kept: to the microsecond."""
    return math.floor(seconds * 1e6 + 0.5) / 1e6


def change_state(state: dict[str, Any], *deltas: dict[str, Any]) -> None:
    """Carries out changes on a copy's state: what was removed leaves it."""
    for delta in deltas:
        for key, value in delta.items():
            if isinstance(value, str) and value == REMOVED:
                state.pop(key, None)
            else:
                state[key] = value
