"""The results of the methods, as types of plain dicts: which keys there are, and their contents.

Names of state have their prefix (`user:cart`) unless stated otherwise. Times are seconds since 1970. An event's number
counts a session's events from 1 on, in the order of their commits; 0 is the session's creation. It is `seq` in a
`KeyWriter`, a `KeyWrite` and the event of an `EventEntry`, as in the events of a session of plain dicts.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class _Author(TypedDict):
    author: str


class KeyWriter(_Author, total=False):
    """The writer of a key, as `blame` returns it for each.

    A write outside any session, by `put_state`, has an `author` and a `time`; the state that a session was created with
    has no `eventId` and no `invocationId`. The author is empty if it is no longer known.
    """

    userId: str
    sessionId: str
    seq: int
    eventId: str
    invocationId: str
    time: float


class KeyWrite(KeyWriter, total=False):
    """A write to a key, as `history` returns them; a removal has no `value`."""

    value: Any


class KeyDiff(TypedDict, total=False):
    """The result of `diff` for a key that differs: its values at the two events, each absent if the key is."""

    before: Any
    after: Any


class Verified(TypedDict):
    """The result of `verify`: a session's `events` and its own `keys`, without those of the user and the app, or the
    writes and the keys of a user or an app."""

    events: int
    keys: int


class Imported(TypedDict):
    """The result of `import_adk`."""

    sessions: int
    """How many were written."""
    events: int
    """How many events they had."""
    skipped: int
    """How many sessions existed already."""
    refused: list[dict[str, str]]
    """What could not be written, and the `reason`: a `session`, or a `key` of its state or an `event` in it; or the
    `key` of a user or an app."""


class ImportedArtifacts(TypedDict):
    """The result of an artifact service's `import_adk`."""

    artifacts: int
    """How many artifacts have versions that were written."""
    versions: int
    """How many were written."""
    skipped: int
    """How many versions existed already."""
    refused: list[dict[str, str]]
    """What could not be written: the `artifact`, and the `reason`."""


class _Conflict(TypedDict):
    key: str
    cause: Literal["changed", "guard"]


class KeyConflict(_Conflict, total=False):
    """A key because of which a write was refused, as in `ScratchbookError.conflicts`: the value that the writer had
    `read` and the value `found`, each absent if the key was absent or the value is unknown, and the `writer` of the
    latter."""

    read: Any
    found: Any
    writer: KeyWriter


class EventEntry(TypedDict):
    """An entry of a watch: an event was appended."""

    type: Literal["event"]
    appName: str
    userId: str
    sessionId: str
    event: dict[str, Any]
    """The event in ADK's JSON, with its number as `seq`; `event["actions"]["stateDelta"]` has its changes."""
    cursor: str


class CreatedEntry(TypedDict):
    """An entry of a watch: a session was created with `state` of its own. A session created without has no entry."""

    type: Literal["created"]
    appName: str
    userId: str
    sessionId: str
    forkedAt: int | None
    """The number of the event at which it was forked from another session."""
    state: dict[str, Any]
    cursor: str


class _Change(TypedDict):
    key: str
    version: int
    author: str
    time: float


class StateChange(_Change, total=False):
    """A key of a user or an app, without its prefix, with its `value` or `removed`."""

    value: Any
    removed: Literal[True]


class StateEntry(TypedDict):
    """An entry of a watch: keys of a user, or of an app if `userId` is `None`, were written outside any session or when
    a session was created."""

    type: Literal["state"]
    appName: str
    userId: str | None
    changes: list[StateChange]
    cursor: str


class RemovedEntry(TypedDict):
    """An entry of a watch: a session or a user was removed, or events of a session were. Removed events may have
    written keys of the user and of the app: read those again after it, and after `pruned` the session as well."""

    type: Literal["removed"]
    appName: str
    userId: str
    sessionId: str | None
    """`None` if the user was deleted."""
    kind: Literal["deleted", "expired", "pruned", "erased"]
    """The session was deleted, or had expired and was removed; its oldest events were pruned; the user was deleted."""
    count: int
    """The number of the last removed event; for a user, how many sessions were removed."""
    time: float
    cursor: str


FeedEntry = EventEntry | CreatedEntry | StateEntry | RemovedEntry
"""An entry of a watch; its `type` says which. A watch with its `cursor` continues after it."""

__all__ = [
    "CreatedEntry",
    "EventEntry",
    "FeedEntry",
    "Imported",
    "ImportedArtifacts",
    "KeyConflict",
    "KeyDiff",
    "KeyWrite",
    "KeyWriter",
    "RemovedEntry",
    "StateChange",
    "StateEntry",
    "Verified",
]
