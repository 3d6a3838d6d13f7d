"""The parts common to all session services: their store, and how sessions and events are built."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from . import _url
from ._errors import CLASSES, NO_SESSION, InvalidArgumentError, ScratchbookError
from ._scratchbook import Store

S = TypeVar("S")
E = TypeVar("E")

Address = tuple[str, str, str]
"""App, user and session id, which together name a session."""

Conflict = Literal["merge", "by_key", "strict"]
"""When an append is refused because of other commits. `merge`: never. `by_key`: if one of its keys was written since
the session was read. `strict`: if the session has changed at all."""


class Appending(NamedTuple):
    """An event that is being appended."""

    address: Address
    event_id: str
    text: bytes
    delta: dict[str, Any]
    temp: dict[str, Any]


class Place(NamedTuple):
    """The place of an event in the copy with which it was appended."""

    seen: str | None
    """The writes that the copy includes at that time; `None` for a copy that does not record them."""
    later: int | None
    """How many of the copy's events come after this one, because concurrent appends end in any order. `None` if the
    copy already contains this event."""
    is_last: bool
    """Whether the copy has no later event."""
    changes: dict[str, Any]
    """The event's changes, without those that a later event of the copy has overwritten."""


class Flight:
    """The appends that run at the same time with one copy of a session."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.seen = '{"seq":0}'
        """Used to order the events if the copy has no mark."""


class UnderWay:
    """The copies of sessions with an append that was sent and whose result is not applied yet."""

    def __init__(self) -> None:
        self._flights: dict[int, Flight] = {}
        # Reentrant: Python may release a coroutine, which ends its append, even while this thread holds the lock.
        self.lock = threading.RLock()

    @contextmanager
    def of(self, session: object) -> Iterator[Flight]:
        """Counts an append with this copy as long as the context is open."""
        thread = threading.get_ident()
        with self.lock:
            flight = self._flights.setdefault(id(session), Flight())
            flight.threads.append(thread)
        try:
            yield flight
        finally:
            with self.lock:
                flight.threads.remove(thread)
                if not flight.threads:
                    self._flights.pop(id(session), None)

    def any(self, session: object, stands_still: bool) -> bool:
        """Whether an append with this copy is running and can end. If this thread's event loop is blocked
        (`stands_still`), appends of this loop cannot end."""
        with self.lock:
            flight = self._flights.get(id(session))
            mine = threading.get_ident() if stands_still else None
            return flight is not None and any(thread != mine for thread in flight.threads)


class Base(Generic[S, E]):
    """A store, and the methods in which the classes for google-adk and for plain dicts differ."""

    def __init__(self, uri: _url.Url, *, conflict: Conflict = "merge", keep_repeated_ids: bool = False) -> None:
        """Creates a service for the store that a URL names. The store is opened at the first call.

        Args:
            uri: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://USER:PASSWORD@HOST/DB` or
                `mysql://USER:PASSWORD@HOST/DB`, with or without a SQLAlchemy driver; or an `sqlalchemy.URL`.
            conflict: When an append is refused. `merge`: never; deltas are merged, and for each key the later one wins.
                `by_key`: if one of its keys was written since the session was read. `strict`: if the session has any
                event that this copy has not seen, as google-adk's database services do.
            keep_repeated_ids: Keep an event whose id is in the session already with other content, as google-adk's
                in-memory service does, instead of refusing it.

        Raises:
            ValueError: the URL or the mode is invalid.
        """
        if conflict not in ("merge", "by_key", "strict"):
            raise InvalidArgumentError(f"no conflict mode is called '{conflict}'; there are merge, by_key and strict")
        store = _url.store_uri(uri)
        self._core = Store(store)
        self._url = _url.shown(store, self._core.uri)
        self._limits = _url.limits(store)
        self._conflict: Conflict = conflict
        self._keeps_repeated_ids = keep_repeated_ids
        self._under_way = UnderWay()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    # How sessions and events are built: implemented by the subclasses.

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
        """The id of a copy's last event, and the time of its last update."""
        raise NotImplementedError

    def _ids_of(self, session: S) -> set[str]:
        """The ids of a copy's events."""
        raise NotImplementedError

    def _renew(self, session: S, fresh: S, goes_on: bool) -> None:
        """Updates a copy from a fresh one. If `goes_on`, the fresh one has only later events."""
        raise NotImplementedError

    def _prepare(self, address: Address, event: E) -> Appending | None:
        """An event in the form that is sent to the store; `None` for a piece of a streamed answer."""
        raise NotImplementedError

    def _take_over(self, session: S, event: E, appending: Appending, place: Place) -> None:
        """Updates the caller's session and event as google-adk does after an append."""
        raise NotImplementedError

    def _state_of(self, session: S) -> dict[str, Any]:
        raise NotImplementedError

    def _named(self, session: S | Address) -> Address:
        try:
            app, user, session_id = session if isinstance(session, tuple) else self._address_of(session)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InvalidArgumentError(
                "a session is given as it was read, or as (app_name, user_id, session_id), not as a "
                f"{type(session).__name__}"
            ) from None
        return app, user, session_id

    def _held(self, session: S) -> Address:
        """The address of a copy that is to be changed."""
        if isinstance(session, tuple):
            raise InvalidArgumentError(
                "this changes the copy of a session: give the session as it was read, not its names"
            )
        return self._named(session)


def no_session(address: Address) -> ScratchbookError:
    return CLASSES[NO_SESSION](f"session not found: {'/'.join(address)}; create it first")
