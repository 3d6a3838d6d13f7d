"""The session service for google-adk. It uses google-adk's types and exceptions, and updates the caller's objects.

```
from scratchbook.adk import ScratchbookSessionService

service = ScratchbookSessionService("sqlite:///scratchbook.db")
runner = Runner(app_name="shop", agent=agent, session_service=service)
```
"""

from __future__ import annotations

import json
import logging
import uuid
from functools import partial
from typing import Any, cast

from google.adk.errors.already_exists_error import AlreadyExistsError as _AdkAlreadyExists
from google.adk.errors.session_not_found_error import SessionNotFoundError as _AdkSessionNotFound
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService, ListSessionsResponse
from google.adk.sessions.session import Session
from pydantic_core import to_jsonable_python

from . import _errors, _url
from ._appends import own_id
from ._artifacts import InputValidationError, ScratchbookArtifactService
from ._base import Address, Appending, Conflict, Place
from ._json import ADK_NUMBERS, LONG, Numbers, check_keys, check_numbers, check_written_keys, dumps, fitted
from ._model import read
from ._service import SessionServiceOf
from ._state import as_kept, change_state, insert, without_temp
from ._wait import wait

try:
    from google.adk.errors import StaleSessionError as _AdkStaleSession
except ImportError:  # An older google-adk without this class.
    _AdkStaleSession = ValueError  # type: ignore[assignment,misc]

logger = logging.getLogger("scratchbook")


class AlreadyExistsError(_errors.AlreadyExistsError, _AdkAlreadyExists):
    """The id is already used with other content; also google-adk's `AlreadyExistsError`."""


class SessionNotFoundError(_errors.SessionNotFoundError, _AdkSessionNotFound):
    """There is no such session; also google-adk's `SessionNotFoundError`."""


class StaleSessionError(_errors.StaleSessionError, _AdkStaleSession):
    """Another write came first; also google-adk's `StaleSessionError`."""


_errors.CLASSES.update({known.kind: known for known in (AlreadyExistsError, StaleSessionError)})
_errors.CLASSES[_errors.NO_SESSION] = SessionNotFoundError


class _Mark(str):
    """Records how much of a session a copy has seen. All marks are equal, so copies are equal if everything else is,
    even if they have seen different amounts or were made by hand."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class ScratchbookSessionService(SessionServiceOf[Session, Event], BaseSessionService):
    """Sessions in memory, in a SQLite file, in PostgreSQL, MySQL or MariaDB: a drop-in `BaseSessionService`.

    ```
    service = ScratchbookSessionService("sqlite:///scratchbook.db")
    runner = Runner(app_name="shop", agent=agent, session_service=service)
    ```

    One service is for all event loops and threads of a process. `await service.close()`, or the end of
    `async with service:`, closes its store. A method takes a session as it was read, or as
    `(app_name, user_id, session_id)`.
    """

    def __init__(
        self,
        uri: _url.Url,
        *,
        conflict: Conflict = "merge",
        keep_repeated_ids: bool = False,
        numbers: Numbers = "strict",
        agents_dir: Any = None,
    ) -> None:
        """Creates a service for the store that a URL names. The store is opened at the first call.

        Args:
            uri: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://USER:PASSWORD@HOST/DB` or
                `mysql://USER:PASSWORD@HOST/DB`, with or without a SQLAlchemy driver; or an `sqlalchemy.URL`.
            conflict: When an append is refused. `merge`: never; deltas are merged, and for each key the later one wins.
                `by_key`: if one of its keys was written since the session was read. `strict`: if the session has any
                event that this copy has not seen, as google-adk's database services do.
            keep_repeated_ids: Keep an event whose id is in the session already with other content, as google-adk's
                in-memory service does, instead of refusing it.
            numbers: `strict` refuses NaN, infinities and integers beyond 64 bits. google-adk's Runner ends a run whose
                event is refused, and leaves the call of the tool that returned the number without an answer. `adk`
                stores NaN and infinities as `null`, and such an integer as a string of its digits.
            agents_dir: Ignored; google-adk's command line passes it to every service that `services.yaml` names.

        Raises:
            ValueError: the URL or the mode is invalid.
        """
        if numbers not in ("strict", "adk"):
            raise _errors.InvalidArgumentError(f"numbers is 'strict' or 'adk', not {numbers!r}")
        super().__init__(uri, conflict=conflict, keep_repeated_ids=keep_repeated_ids)
        self._numbers = numbers

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Creates a session. `user:` and `app:` keys in `state` become state of the user and the app; `temp:` keys are
        not stored.

        Raises:
            AlreadyExistsError: the id is taken.
            ValueError: a key or value that no store can hold, or that has no form in JSON.
        """
        check_keys(state or {})
        initial = _initial_state(state or {})
        if self._numbers == "adk":
            initial = fitted(initial)
        else:
            check_numbers({"state": initial}, advice=ADK_NUMBERS)
        config = dumps({"session_id": session_id, "state": initial})
        return self._make_session(*await self._core.create(app_name, user_id, config))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Lists the sessions of an app, or of one user of the app, the least recently updated first. They have their
        merged state, but no events."""
        return ListSessionsResponse.model_validate_json(await self._core.list(app_name, user_id))

    def list_sessions_sync(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """`list_sessions` without an event loop."""
        return wait(self.list_sessions(app_name=app_name, user_id=user_id))

    def _make_session(self, text: bytes, seen: str) -> Session:
        session = read(Session, text)
        session._storage_update_marker = _Mark(seen)
        if self._keeps_repeated_ids:
            for event in session.events:
                event.id = own_id(event.id)
        return session

    def _make_event(self, text: bytes) -> Event:
        event = read(Event, text)
        event.id = own_id(event.id)
        return event

    def _id_of(self, event: Event) -> str:
        return event.id

    def _new_event(self, author: str) -> Event:
        return Event(author=author, invocation_id=f"p-{uuid.uuid4()}", actions=EventActions())

    def _address_of(self, session: Session) -> Address:
        return session.app_name, session.user_id, session.id

    def _seen_of(self, session: Session) -> str | None:
        marker = session._storage_update_marker
        # The mark of another service has no meaning here.
        return str(marker) if isinstance(marker, _Mark) else None

    def _last_of(self, session: Session) -> tuple[str, float]:
        return (session.events[-1].id if session.events else ""), session.last_update_time

    def _ids_of(self, session: Session) -> set[str]:
        return {event.id for event in session.events}

    def _renew(self, session: Session, fresh: Session, goes_on: bool) -> None:
        later = self._ids_of(fresh)
        kept = [event for event in session.events if event.id not in later] if goes_on else []
        session.state, session.events = fresh.state, kept + fresh.events
        session.last_update_time = fresh.last_update_time
        session._storage_update_marker = fresh._storage_update_marker

    def _state_of(self, session: Session) -> dict[str, Any]:
        return session.state

    def _prepare(self, address: Address, event: Event) -> Appending | None:
        if not isinstance(event, Event):
            raise _errors.InvalidArgumentError(f"an event of google-adk's is an Event, not a {type(event).__name__}")
        if event.partial:
            return None
        try:
            return self._appending(address, event)
        except _errors.ScratchbookError:
            raise
        # The text is not Unicode, or a value contains itself or is too deep.
        except (ValueError, RecursionError) as error:
            raise _errors.InvalidArgumentError(f"the event has no form in JSON: {error}") from error

    def _appending(self, address: Address, event: Event) -> Appending:
        delta = event.actions.state_delta
        kept, temp = without_temp(delta)
        if not temp and _is_plain(kept):
            return Appending(address, event.id, self._json_event(event), kept, temp)
        # A `temp:` value needs no JSON form. A stored value is converted in the same way as for a new session.
        event.actions.state_delta = kept if _is_plain(kept) else _json_delta(kept)
        try:
            return Appending(address, event.id, self._json_event(event), kept, temp)
        finally:
            event.actions.state_delta = delta

    def _json_event(self, event: Event) -> bytes:
        """An event as google-adk writes it."""
        text = event.model_dump_json(by_alias=True, exclude_none=True).encode()
        values = partial(event.model_dump, by_alias=True, exclude_none=True)
        check_written_keys(text, values)
        if self._numbers == "adk":
            # Pydantic has written NaN as null already.
            return dumps(fitted(json.loads(text))) if LONG.search(text) else text
        if b"null" in text or LONG.search(text):
            check_numbers(values(), advice=ADK_NUMBERS)
        return text

    def _take_over(self, session: Session, event: Event, appending: Appending, place: Place) -> None:
        if event.actions.state_delta or appending.delta:
            event.actions.state_delta = appending.delta
        if place.seen is not None:
            session._storage_update_marker = _Mark(place.seen)
        if place.later is None:
            return
        change_state(session.state, appending.temp, place.changes)
        insert(session.events, event, place.later)
        if place.is_last:
            session.last_update_time = as_kept(event.timestamp)


def _initial_state(state: dict[str, Any]) -> dict[str, Any]:
    """State of a new session as JSON.

    Raises:
        InvalidArgumentError: a value has no form in JSON; the message names its key.
    """
    try:
        return cast(dict[str, Any], to_jsonable_python(state))
    except Exception as error:  # A value's own serializer may raise anything.
        keys = ", ".join(repr(key) for key, value in state.items() if not _has_json(value))
        message = f"what is set as {keys} has no form in JSON; convert it to text, numbers, lists or dicts: {error}"
        raise _errors.InvalidArgumentError(message) from error


def _json_delta(delta: dict[str, Any]) -> dict[str, Any]:
    """Changes as google-adk stores them: a value without a JSON form is stored as its `repr`, with a warning, since a
    refused event would end the run."""
    try:
        return cast(dict[str, Any], to_jsonable_python(delta))
    except Exception:  # A value's own serializer may raise anything.
        stored = cast(dict[str, Any], to_jsonable_python(delta, serialize_unknown=True))
    # Find the keys again, to name them in the log.
    keys = [repr(key) for key, value in delta.items() if not _has_json(value)]
    logger.warning("what is set as %s has no JSON; its repr is stored", ", ".join(keys))
    return stored


def _has_json(value: Any) -> bool:
    try:
        to_jsonable_python(value)
    except Exception:
        return False
    return True


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _is_plain(value: Any) -> bool:
    """Whether a value is JSON without conversion."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return kind in _PLAIN or (kind is list and all(map(_is_plain, value)))


def register(registry: Any = None) -> None:
    """Registers URIs with google-adk's commands, for `--session_service_uri` and `--artifact_service_uri`. Call this
    function in a file `services.py`. The URIs are `scratchbook+sqlite://...`, `scratchbook+postgresql://...`,
    `scratchbook+mysql://...`, each with or without a SQLAlchemy driver, and `scratchbook+memory:`.

    ```
    # agents/services.py
    from scratchbook.adk import register

    register()
    ```

    `adk web` and `adk api_server` look for that file only in the folder of the agents, `adk run` only in the folder of
    the one agent that it runs, `agents/shop/services.py`.

    Args:
        registry: google-adk's `ServiceRegistry`; by default the one of its command line.
    """
    if registry is None:
        from google.adk.cli.service_registry import get_service_registry

        registry = get_service_registry()
    for kind in _url.KINDS:
        # The registry compares the whole scheme.
        for driver in ("", *_url.DRIVERS.get(kind, ())):
            scheme = f"{_url.PREFIX}{kind}{driver and '+'}{driver}"
            registry.register_session_service(scheme, _of_uri)
            registry.register_artifact_service(scheme, _artifacts_of_uri)


def _of_uri(
    uri: str,
    *,
    conflict: Conflict = "merge",
    keep_repeated_ids: bool = False,
    numbers: Numbers = "strict",
    agents_dir: Any = None,
    **options: Any,
) -> ScratchbookSessionService:
    url = _url.with_options(uri, options)
    return ScratchbookSessionService(url, conflict=conflict, keep_repeated_ids=keep_repeated_ids, numbers=numbers)


def _artifacts_of_uri(uri: str, **options: Any) -> ScratchbookArtifactService:
    # The folder of the agents, and whether each has its own folder.
    beside = {name: value for name, value in options.items() if name not in ("agents_dir", "per_agent")}
    return ScratchbookArtifactService(_url.with_options(uri, beside))


__all__ = [
    "AlreadyExistsError",
    "InputValidationError",
    "ScratchbookArtifactService",
    "ScratchbookSessionService",
    "SessionNotFoundError",
    "StaleSessionError",
    "register",
]
