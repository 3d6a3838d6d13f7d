"""Measures how long operations take: rates, percentiles, processor time. Also limits the time for preparation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from shared.protocol import Unsupported

Step = Callable[[int], Awaitable[Any]]
"""One operation of the task with this number."""

PREPARATION = 45.0
"""How long the preparation of a cell may take, in seconds."""


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Percentiles of durations, in microseconds."""
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e6, 1)

    return {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)}


class Measured:
    """The numbers of one cell, which may have several parts."""

    def __init__(self, processor: Callable[[], float] = time.process_time) -> None:
        self._processor = processor
        self._taken: list[float] = []
        self._seconds = self._used = 0.0

    @property
    def seconds(self) -> float:
        """How long all parts took together."""
        return self._seconds

    async def part(self, tasks: int, step: Step, is_over: Callable[[float, int], bool]) -> None:
        """Lets each task repeat its step until `is_over` returns true, but at least once.

        `step` receives the number of its task. `is_over` receives the seconds since the start, and how many steps the
        task did. If a step fails, the other tasks end, and the failure is raised.
        """

        async def work(task: int) -> None:
            done = 0
            while True:
                begun = time.perf_counter()
                await step(task)
                ended = time.perf_counter()
                self._taken.append(ended - begun)
                done += 1
                if is_over(ended - start, done):
                    return

        used, start = self._processor(), time.perf_counter()
        running = [asyncio.create_task(work(task)) for task in range(tasks)]
        try:
            await asyncio.gather(*running)
        finally:
            for one in running:
                one.cancel()
        self._seconds += time.perf_counter() - start
        self._used += self._processor() - used

    def answer(self) -> dict[str, Any]:
        return {
            "operations": len(self._taken),
            "seconds": self._seconds,
            "processor_seconds": self._used,
            "latencies_us": percentiles(self._taken),
            "wrong": None,
            "bytes": None,
            "note": None,
        }


async def repeat(
    tasks: int, seconds: float, step: Step, processor: Callable[[], float] = time.process_time
) -> dict[str, Any]:
    """Lets each task repeat its step until the time is over, but at least once."""
    measured = Measured(processor)
    await measured.part(tasks, step, lambda elapsed, _: elapsed >= seconds)
    return measured.answer()


class Preparation:
    """Stops a preparation as soon as it is clear that it would take too long."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._begun = total, 0, time.perf_counter()

    def advance(self, parts: int = 1) -> None:
        self._done += parts
        elapsed = time.perf_counter() - self._begun
        expected = elapsed / self._done * self._total
        if elapsed > 3 and expected > PREPARATION:
            raise Unsupported(f"the preparation of this size takes about {expected:.0f} s.")
