"""How long operations take: rates, percentiles, processor time; and the limit of the time for preparation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from shared.protocol import Unsupported

PREPARATION = 45.0
"""How long the preparation of a cell may take, in seconds."""


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Percentiles of durations, in microseconds."""
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e6, 1)

    return {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)}


async def repeat(
    tasks: int,
    seconds: float,
    step: Callable[[int], Awaitable[Any]],
    processor: Callable[[], float] = time.process_time,
) -> dict[str, Any]:
    """Lets each task repeat its step until the time is over, and once at least; `step` gets the number of its task."""
    taken: list[float] = []

    async def work(task: int) -> None:
        while True:
            begun = time.perf_counter()
            await step(task)
            ended = time.perf_counter()
            taken.append(ended - begun)
            if ended - start >= seconds:
                return

    used, start = processor(), time.perf_counter()
    await asyncio.gather(*(work(task) for task in range(tasks)))
    elapsed = time.perf_counter() - start
    return {
        "operations": len(taken),
        "seconds": elapsed,
        "processor_seconds": processor() - used,
        "latencies_us": percentiles(taken),
        "wrong": None,
        "bytes": None,
        "note": None,
    }


class Preparation:
    """Stops a preparation as soon as it is foreseeable that it takes too long."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._begun = total, 0, time.perf_counter()

    def advance(self, parts: int = 1) -> None:
        self._done += parts
        elapsed = time.perf_counter() - self._begun
        expected = elapsed / self._done * self._total
        if elapsed > 3 and expected > PREPARATION:
            raise Unsupported(f"the preparation of this size takes about {expected:.0f} s.")
