"""What a system has made of the events that it acknowledged: lost, refused, disordered, doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

Origin = tuple[int, int]
"""The writer of an event, and which of its events it is."""


@dataclass
class Wrong:
    """Counts of one cell."""

    lost: int = 0
    refused: int = 0
    disordered: int = 0
    doubled: int = 0
    acknowledged: dict[object, list[Origin]] = field(default_factory=dict)

    def acknowledge(self, session: object, origin: Origin) -> None:
        self.acknowledged.setdefault(session, []).append(origin)

    def compare(self, session: object, stored: Iterable[Origin], lacking: Iterable[Origin] = ()) -> None:
        """Compares the acknowledged events of a session with the stored ones, in their order.

        `lacking` are acknowledged events whose change of the state is not there. An event that is gone as well as
        its change counts once. A pair is disordered if one writer's event stands directly behind a later one of it.
        """
        stored = list(stored)
        counts = Counter(stored)
        self.lost += len({one for one in self.acknowledged.get(session, ()) if one not in counts} | set(lacking))
        self.doubled += sum(count - 1 for count in counts.values())
        latest: dict[int, int] = {}
        for writer, number in stored:
            self.disordered += number < latest.get(writer, -1)
            latest[writer] = number

    def counts(self) -> dict[str, int]:
        return {
            "lost": self.lost,
            "refused": self.refused,
            "disordered": self.disordered,
            "doubled": self.doubled,
        }


def origin_of_step(step: str) -> Origin:
    """The origin of an event that is known by its change of `step` alone."""
    _, writer, number = step.split(" ")
    return int(writer), int(number)
