"""What a runner in Python implements for its system; `shared.workloads` measures it."""

from __future__ import annotations

from typing import Any, Protocol

from shared.check import Origin
from shared.measure import Preparation


class Refused(Exception):
    """The system did not take an append and asks for a new read or another attempt."""


class System(Protocol):
    """One system on one store. A `session` is what a program of this system holds of a session."""

    store: str
    notes: dict[str, str]
    """For each workload that is not quite the same here, what differs."""

    async def create(self, app: str, user: str, state: dict[str, str]) -> Any:
        """Creates a session."""

    async def append(self, session: Any, origin: Origin, delta: dict[str, str]) -> None:
        """Appends an event; raises `Refused` if the system did not take it."""

    async def reload(self, session: Any) -> Any:
        """Reads a session again, as a program does after a refusal, or in a second tab."""

    async def fill(self, session: Any, count: int, preparation: Preparation) -> None:
        """Gives a session events, numbered from 0, of the writer -1, by the fastest way that reads alike."""

    async def grow(self, session: Any, count: int, preparation: Preparation) -> None:
        """Gives a session events, and leaves everything that this many appends leave."""

    async def fill_sessions(self, app: str, users: list[str], preparation: Preparation) -> None:
        """Creates a session for each entry, by the fastest way that leaves the same rows."""

    async def whole(self, session: Any) -> tuple[Any, int]:
        """Reads a session with every event; returns it, and the number of its events."""

    def json(self, whole: Any) -> str:
        """The text of such a session."""

    async def recent(self, session: Any, count: int) -> int:
        """Reads a session with its last events; returns how many came."""

    async def listing(self, app: str, user: str) -> int:
        """Lists a user's sessions; returns how many came."""

    async def stored(self, session: Any, most: int) -> tuple[list[Origin], dict[str, Any]]:
        """The origins of the last `most` events of a session, in its order, and its state."""

    async def turn(self, session: Any) -> str:
        """Lets the framework's runner answer a message; returns the text of the answer."""

    async def disk(self) -> int:
        """How many bytes the store has on the disk."""
