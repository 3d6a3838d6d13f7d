"""What a system has made of the events that it acknowledged: lost, refused, disordered, doubled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

Origin = tuple[int, int]
"""The writer of an event, and which of its events it is."""


@dataclass
class Wrong:
    """Counts of one cell."""

    lost: int = 0
    refused: int = 0
    disordered: int = 0
    doubled: int = 0

    def compare(self, acknowledged: list[Origin], stored: list[Origin], lacking: list[Origin]) -> None:
        """Compares the acknowledged events of a session with the stored ones, in their order.

        `lacking` are acknowledged events whose change of the state is not there. An event that is gone as well as
        its change counts once. A pair is disordered if one writer's event stands behind a later one of it.
        """
        counts = Counter(stored)
        self.lost += len({one for one in acknowledged if one not in counts} | set(lacking))
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
