"""How an append changes a copy's state."""

from __future__ import annotations

import math
from typing import Any

from ._json import check_keys
from ._scratchbook import REMOVED


def without_temp(delta: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits changes into changes that are stored, and changes of `temp:` keys, which are not stored.

    Raises:
        InvalidArgumentError: a key is not a string.
    """
    check_keys(delta)
    kept = {key: value for key, value in delta.items() if not key.startswith("temp:")}
    return kept, {} if len(kept) == len(delta) else {key: value for key, value in delta.items() if key not in kept}


def as_kept(seconds: float) -> float:
    """A time rounded like the stored time of a session's last update: to the microsecond."""
    return math.floor(seconds * 1e6 + 0.5) / 1e6


def change_state(state: dict[str, Any], *deltas: dict[str, Any]) -> None:
    """Applies changes to a copy's state; removed keys are deleted."""
    for delta in deltas:
        for key, value in delta.items():
            if isinstance(value, str) and value == REMOVED:
                state.pop(key, None)
            else:
                state[key] = value


def insert(events: list[Any], event: Any, later: int) -> None:
    """Inserts an event before the last `later` ones."""
    events.insert(max(0, len(events) - later), event)
