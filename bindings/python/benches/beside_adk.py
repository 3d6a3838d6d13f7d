"""Scratchbook beside google-adk's own session services, in one run on one machine.

    python bindings/python/benches/beside_adk.py [--rounds N]

Both sides take turns, and the median of the rounds counts. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from scratchbook.adk import ScratchbookSessionService

REFUSED: Counter[str] = Counter()
"""How often a service reported that its database is locked, and was called again."""

Work = Callable[[Any], Awaitable[float]]


def load() -> str:
    """The load averages of the last minute, five minutes and fifteen minutes."""
    return " ".join(f"{average:.2f}" for average in os.getloadavg())


def event(n: int) -> Event:
    """An agent's event with a change: about 500 bytes of JSON."""
    content = types.Content(role="model", parts=[types.Part(text=f"This is answer number {n}. " * 6)])
    actions = EventActions(state_delta={f"k{n % 10}": n, "user:last": f"answer {n}"})
    return Event(author="agent", invocation_id=f"e-{n}", content=content, actions=actions)


async def made(service: Any, app: str, events: int = 0) -> Any:
    session = await service.create_session(app_name=app, user_id="u")
    for n in range(events):
        await service.append_event(session, event(n))
    return session


async def append_one(service: Any, times: int = 150) -> float:
    """Appends events one by one, and returns the appends per second."""
    session = await made(service, "one")
    events = [event(n) for n in range(times)]
    begun = time.perf_counter()
    for one in events:
        await service.append_event(session, one)
    return times / (time.perf_counter() - begun)


async def insist(service: Any, session: Any, one: Event) -> None:
    """Appends an event, and tries again if the service gives up on a locked file, as google-adk's services do."""
    while True:
        try:
            await service.append_event(session, one)
            return
        except Exception as error:
            if "database is locked" not in str(error):
                raise
            REFUSED[type(service).__name__] += 1


async def append_sixteen(service: Any, times: int = 25) -> float:
    """Appends to sixteen sessions at the same time, and returns the appends per second."""
    sessions = [await made(service, "sixteen") for _ in range(16)]
    events = [[event(n) for n in range(times)] for _ in sessions]

    async def write(session: Any, mine: list[Event]) -> None:
        for one in mine:
            await insist(service, session, one)

    begun = time.perf_counter()
    await asyncio.gather(*(write(session, mine) for session, mine in zip(sessions, events, strict=True)))
    return 16 * times / (time.perf_counter() - begun)


def get(session_of: dict[int, Any], config: GetSessionConfig | None, times: int) -> Work:
    """Returns the work that reads an existing session and returns the reads per second."""

    async def work(service: Any) -> float:
        session = session_of[id(service)]
        names = {"app_name": session.app_name, "user_id": "u", "session_id": session.id}
        begun = time.perf_counter()
        for _ in range(times):
            found = await service.get_session(**names, config=config)
        seconds = time.perf_counter() - begun
        assert len(found.events) == (config.num_recent_events if config else 1000)
        return times / seconds

    return work


async def compare(name: str, ours: Any, theirs: Any, work: Work, target: float, rounds: int) -> bool:
    """Lets both services do some work in turns, and shows the result."""
    numbers: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for service, taken in zip((ours, theirs), numbers, strict=True):
            taken.append(await work(service))
    own, other = map(statistics.median, numbers)
    ratio = own / other
    good = ratio >= target
    print(
        f"| {name} | {own:,.0f} | {other:,.0f} | {ratio:.2f} | {target:g}: {'met' if good else 'MISSED'} |", flush=True
    )
    return good


async def main(rounds: int) -> int:
    print(f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, load before {load()}")
    print("| | scratchbook, per s | google-adk, per s | times | target |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        ours = ScratchbookSessionService(f"sqlite:///{folder}/ours.db")
        memory = ScratchbookSessionService("memory:")
        file = SqliteSessionService(f"{folder}/file.db")
        database = DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/database.db")
        live = InMemorySessionService()
        met = []
        for name, theirs, target in (
            ("SqliteSessionService", file, 4.0),
            ("DatabaseSessionService on SQLite", database, 4.0),
        ):
            met.append(await compare(f"append, one session; {name}", ours, theirs, append_one, target, rounds))
        for name, theirs, target in (
            ("SqliteSessionService", file, 10.0),
            ("DatabaseSessionService on SQLite", database, 10.0),
        ):
            met.append(await compare(f"append, 16 sessions; {name}", ours, theirs, append_sixteen, target, rounds))
        long = {id(service): await made(service, "long", 5000) for service in (ours, file)}
        ten = get(long, GetSessionConfig(num_recent_events=10), 50)
        met.append(await compare("get, last 10 of 5,000 events; SqliteSessionService", ours, file, ten, 8.0, rounds))
        whole = {id(service): await made(service, "whole", 1000) for service in (memory, live)}
        thousand = get(whole, None, 5)
        met.append(await compare("get, 1,000 events; InMemorySessionService", memory, live, thousand, 0.5, rounds))
        for service in (ours, memory, database):
            await service.close()
    for name, times in REFUSED.items():
        print(f"{name} said {times} times that its database is locked, and was asked again")
    print(f"load afterwards {load()}")
    return 0 if all(met) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    sys.exit(asyncio.run(main(parser.parse_args().rounds)))
