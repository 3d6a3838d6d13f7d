"""The data of every cell, equal in all runners."""

from __future__ import annotations

APP = "bench"

TEXT = ("The customer asked for a quiet room with a view of the lake, breakfast included, from Friday to Sunday. " * 3)[
    :300
]
"""What an event says: 300 characters."""

CREATED = {"topic": "a room by the lake", "step": "asked"}
"""The state with which a session begins."""


def created(count: int) -> dict[str, str]:
    """The state of a session that is created with this many keys, but with two at least."""
    return CREATED | {f"key-{n}": f"value {n}" for n in range(3, count + 1)}


def user(number: int) -> str:
    return f"user-{number}"


def invocation(writer: int, number: int) -> str:
    """The invocation id of an event. It contains the event's writer and number."""
    return f"e.{writer}.{number}"


def origin(invocation_id: str) -> tuple[int, int]:
    """The writer and the number of an event."""
    _, writer, number = invocation_id.split(".")
    return int(writer), int(number)


def delta(writer: int, number: int) -> dict[str, str]:
    """The change of an event: one key of the session and one key of the user."""
    return {"step": f"step {writer} {number}", "user:last": f"last {writer} {number}"}


def keys(count: int) -> dict[str, str]:
    """A state with this many keys of the session."""
    return {f"key-{n}": f"value {n}" for n in range(count)}
