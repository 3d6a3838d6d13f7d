"""What a runner in Python implements for its system; `shared.workloads` measures it."""

from __future__ import annotations

from typing import Any, Protocol

from shared.check import Origin
from shared.measure import Preparation


class Refused(Exception):
    """The system refused an append and asks for a new read or another attempt."""


class System(Protocol):
    """One system on one store. A `session` is the value with which a program refers to a session in this system."""

    store: str
    notes: dict[str, str]
    """For each workload that is not quite the same here, what differs."""

    async def create(self, app: str, user: str, state: dict[str, str]) -> Any:
        """Creates a session."""

    async def append(self, session: Any, origin: Origin, delta: dict[str, str]) -> None:
        """Appends an event; raises `Refused` if the system refuses it."""

    async def reload(self, session: Any) -> Any:
        """Reads a session again, as a program does after a refusal, or in a second tab."""

    async def fill(self, session: Any, count: int, preparation: Preparation) -> None:
        """Adds events of the writer -1 to a session, numbered from 0, in the fastest way after which reads return the
        same."""

    async def grow(self, session: Any, count: int, preparation: Preparation) -> None:
        """Adds events to a session, so that the store has everything that this many appends would leave in it."""

    async def fill_sessions(self, app: str, users: list[str], preparation: Preparation) -> None:
        """Creates a session for each entry, in the fastest way that leaves the same rows."""

    async def whole(self, session: Any) -> tuple[Any, int]:
        """Reads a session with every event; returns it, and the number of its events."""

    def json(self, whole: Any) -> str:
        """The JSON text of a session that `whole` has returned."""

    async def recent(self, session: Any, count: int) -> int:
        """Reads a session with its last events, and returns how many there were."""

    async def listing(self, app: str, user: str) -> int:
        """Lists a user's sessions, and returns how many there were."""

    async def stored(self, session: Any, most: int) -> tuple[list[Origin], dict[str, Any]]:
        """The origins of the last `most` events of a session, in their order, and the session's state."""

    async def turn(self, session: Any) -> str:
        """Lets the framework's runner answer a message; returns the text of the answer."""

    async def disk(self) -> int:
        """How many bytes the store has on the disk."""
