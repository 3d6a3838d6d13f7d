"""Checks what became of the events that the system acknowledged: lost, refused, disordered, doubled."""

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

        `lacking` are acknowledged events whose change of the state is missing. If an event and its change are both
        missing, the event counts once. An event is disordered if the event before it by the same writer has a higher
        number.
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
    """The origin of an event of which only the change of `step` is known."""
    _, writer, number = step.split(" ")
    return int(writer), int(number)
