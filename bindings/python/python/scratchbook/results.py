"""The types of the dicts that the methods return: their keys and values.

Keys of state have their prefix (`user:cart`) unless stated otherwise. Times are in seconds since 1970. The events of a
session are numbered from 1 on, in the order of their commits; 0 is the session's creation. The number is called `seq`
in a `KeyWriter`, a `KeyWrite`, the event of an `EventEntry`, and the events of a session of plain dicts.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class _Author(TypedDict):
    author: str


class KeyWriter(_Author, total=False):
    """The last writer of a key, as `blame` returns it for each key.

    A write outside any session, by `put_state`, has only an `author` and a `time`. A write by the creation of a session
    has no `eventId` and no `invocationId`. The author is empty if it is no longer known.
    """

    userId: str
    sessionId: str
    seq: int
    eventId: str
    invocationId: str
    time: float


class KeyWrite(KeyWriter, total=False):
    """A write to a key, as `history` returns it. A removal has no `value`."""

    value: Any


class KeyDiff(TypedDict, total=False):
    """The result of `diff` for a key that differs: its value at each of the two events, if the key is there."""

    before: Any
    after: Any


class Verified(TypedDict):
    """The result of `verify`. For a session, it has the numbers of its `events` and of its own `keys`, without those of
    the user and the app. For a user or an app, `events` counts its writes."""

    events: int
    keys: int


class Imported(TypedDict):
    """The result of `import_adk`."""

    sessions: int
    """How many sessions were written."""
    events: int
    """How many events were written."""
    skipped: int
    """How many sessions existed already."""
    refused: list[dict[str, str]]
    """What could not be written, and the `reason`: a `session`, a `key` of its state or an `event` in it, or a `key` of
    a user or an app."""


class ImportedArtifacts(TypedDict):
    """The result of an artifact service's `import_adk`."""

    artifacts: int
    """How many artifacts had versions that were written."""
    versions: int
    """How many versions were written."""
    skipped: int
    """How many versions existed already."""
    refused: list[dict[str, str]]
    """What could not be written: the `artifact`, and the `reason`."""


class _Conflict(TypedDict):
    key: str
    cause: Literal["changed", "guard"]


class KeyConflict(_Conflict, total=False):
    """A key that caused a write to be refused, as in `ScratchbookError.conflicts`. It has the value that the caller had
    `read`, the value that was `found` in the store, and the `writer` of the found value. A value is left out if the key
    was absent or the value is unknown."""

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
    """The event in ADK's JSON, with its number as `seq`. Its changes are in `event["actions"]["stateDelta"]`."""
    cursor: str


class CreatedEntry(TypedDict):
    """An entry of a watch: a session was created with `state` of its own. Without such state there is no entry."""

    type: Literal["created"]
    appName: str
    userId: str
    sessionId: str
    forkedAt: int | None
    """The number of the event at which the session was forked from another; `None` if it is not a fork."""
    state: dict[str, Any]
    cursor: str


class _Change(TypedDict):
    key: str
    version: int
    author: str
    time: float


class StateChange(_Change, total=False):
    """A changed key of a user or an app, without its prefix. It has either the new `value` or `removed`."""

    value: Any
    removed: Literal[True]


class StateEntry(TypedDict):
    """An entry of a watch: keys were written outside any session, or when a session was created. They are keys of a
    user, or of an app if `userId` is `None`."""

    type: Literal["state"]
    appName: str
    userId: str | None
    changes: list[StateChange]
    cursor: str


class RemovedEntry(TypedDict):
    """An entry of a watch: a session, a user, or events of a session were removed. Removed events may have written keys
    of the user and of the app, so read these keys again. After `pruned`, read the session again as well."""

    type: Literal["removed"]
    appName: str
    userId: str
    sessionId: str | None
    """`None` if the user was deleted."""
    kind: Literal["deleted", "expired", "pruned", "erased"]
    """`deleted`: the session was deleted. `expired`: it had expired and was removed. `pruned`: its oldest events were
    removed. `erased`: the user was deleted."""
    count: int
    """The number of the last removed event. For a deleted user: how many sessions were removed."""
    time: float
    cursor: str


FeedEntry = EventEntry | CreatedEntry | StateEntry | RemovedEntry
"""An entry of a watch. Its `type` says which of these it is. A watch with the entry's `cursor` continues after it."""

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
