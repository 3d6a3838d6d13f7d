"""What the methods give, as types of plain dicts: which keys there are, and what is in them.

Names of state have their prefix (`user:cart`) but where it says otherwise. Times are seconds since 1970. An event's
number counts a session's events from 1 on, in the order of their commits; 0 is the session's creation. A `KeyWriter`, a
`KeyWrite` and the event of an `EventEntry` say it as `seq`, as the events of a session of plain dicts do.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class _Author(TypedDict):
    author: str


class KeyWriter(_Author, total=False):
    """Who wrote a key: what `blame` gives for each.

    A write outside of any session, by `put_state`, has an `author` and a `time`; the state that a session was made with
    has no `eventId` and no `invocationId`. The author is empty where it is not known any more.
    """

    userId: str
    sessionId: str
    seq: int
    eventId: str
    invocationId: str
    time: float


class KeyWrite(KeyWriter, total=False):
    """A write to a key, as `history` gives them; a removal has no `value`."""

    value: Any


class KeyDiff(TypedDict, total=False):
    """What `diff` gives for a key that differs: its values at the two events, each absent where the key is."""

    before: Any
    after: Any


class Verified(TypedDict):
    """What `verify` has looked at: a session's `events` and its own `keys`, without those of the user and the app, or
    the writes and the keys of a user or an app."""

    events: int
    keys: int


class Imported(TypedDict):
    """What `import_adk` has done."""

    sessions: int
    """How many were written."""
    events: int
    """How many were in them."""
    skipped: int
    """How many sessions are here already."""
    refused: list[dict[str, str]]
    """What could not be written, and the `reason`: a `session`, or a `key` of its state or an `event` in it; or the
    `key` of a user or an app."""


class ImportedArtifacts(TypedDict):
    """What `import_adk` of an artifact service has done."""

    artifacts: int
    """How many have versions that were written."""
    versions: int
    """How many were written."""
    skipped: int
    """How many versions are here already."""
    refused: list[dict[str, str]]
    """What could not be written: the `artifact`, and the `reason`."""


class _Conflict(TypedDict):
    key: str
    cause: Literal["changed", "guard"]


class KeyConflict(_Conflict, total=False):
    """A key for whose sake a write was refused, as `ScratchbookError.conflicts` has them: the value that the writer had
    `read` and the one `found`, each absent where the key was or where it is not known, and the latter's `writer`."""

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
    """As ADK's JSON has it, with its number as `seq`; `event["actions"]["stateDelta"]` is what it changed."""
    cursor: str


class CreatedEntry(TypedDict):
    """An entry of a watch: a session was made with `state` of its own. One that was made without is in no feed."""

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
    """An entry of a watch: keys of a user, or of an app where `userId` is `None`, were written outside of any session
    or when a session was made."""

    type: Literal["state"]
    appName: str
    userId: str | None
    changes: list[StateChange]
    cursor: str


class RemovedEntry(TypedDict):
    """An entry of a watch: a session or a user was removed, or events of a session were. Events that are gone may have
    written keys of the user and of the app: read those again after it, and after `pruned` the session as well."""

    type: Literal["removed"]
    appName: str
    userId: str
    sessionId: str | None
    """`None` if the user was deleted."""
    kind: Literal["deleted", "expired", "pruned", "erased"]
    """The session was deleted, or had expired and was removed; its oldest events were pruned; the user was deleted."""
    count: int
    """The number of the last event that went; of a user, how many sessions went."""
    time: float
    cursor: str


FeedEntry = EventEntry | CreatedEntry | StateEntry | RemovedEntry
"""An entry of a watch: which one it is, its `type` says. A watch that begins after its `cursor` goes on there."""

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
