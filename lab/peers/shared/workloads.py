"""The workloads, for any system."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from shared.check import Origin, Wrong
from shared.data import APP, CREATED, created, delta, keys, user
from shared.measure import Measured, Preparation, repeat
from shared.protocol import Request, Unsupported, Workload
from shared.system import Refused, System

Answer = dict[str, Any]

SESSIONS_OF_A_USER = 10
"""How many sessions a listing is to find."""
EVENTS_IN_MEMORY = 10_000
"""How many events are made at least to measure the memory of one."""
TURN_EVENTS = 2_000
"""How many events are prepared at most for turns."""
TURN_SESSIONS = 32
"""Over how many sessions the turns of a task are spread at most, so that the sessions' length hardly changes."""
SHARED_EVENTS = 25
"""How many events each task writes to a shared session."""


class Workloads:
    """Every workload by its name, and what was prepared for later rounds."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._users = count()
        self._kept: dict[tuple[str, int], Any] = {}

    def by_name(self) -> dict[str, Workload]:
        names = "create append append_hot append_shared get get_json get_recent list state turn size_on_disk memory"
        return {name: self._noted(name) for name in [*names.split(), "cold_start"]}

    def _noted(self, name: str) -> Workload:
        """A workload whose answers have a note about how the system differs."""
        workload: Workload = getattr(self, name)

        async def noted(request: Request) -> Answer:
            answer = await workload(request)
            return answer | {"note": self._system.notes.get(name)}

        return noted

    async def _session(self, events: int, preparation: Preparation, state: dict[str, str] = CREATED) -> Any:
        """A new session of a new user, with this many events."""
        session = await self._system.create(APP, user(next(self._users)), state)
        if events:
            await self._system.fill(session, events, preparation)
        return session

    async def _sessions(self, number: int, events: int) -> list[Any]:
        preparation = Preparation(number * max(events, 1))
        return [await self._session(events, preparation) for _ in range(number)]

    async def _long_session(self, events: int) -> Any:
        """A session that is only read, and kept for later rounds."""
        if ("long", events) not in self._kept:
            self._kept["long", events] = (await self._sessions(1, events))[0]
        return self._kept["long", events]

    async def create(self, request: Request) -> Answer:
        if request.seconds > 0:
            # Not in a cold start: the first one makes the tables.
            await self._sessions(1, 0)
        state = created(request.size)

        async def step(task: int) -> None:
            await self._system.create(APP, user(task), state)

        return await repeat(request.tasks, request.seconds, step)

    async def append(self, request: Request) -> Answer:
        sessions = await self._sessions(request.tasks, request.size)
        return await self._append(request, sessions, request.tasks)

    async def append_hot(self, request: Request) -> Answer:
        sessions = await self._sessions(request.tasks, request.size)
        return await self._append(request, sessions, request.tasks, hot=True)

    async def state(self, request: Request) -> Answer:
        sessions = [await self._session(0, Preparation(1), keys(request.size)) for _ in range(request.tasks)]
        return await self._append(request, sessions, request.tasks)

    async def _append(self, request: Request, sessions: list[Any], tasks: int, hot: bool = False) -> Answer:
        """Each task appends to its own session. Afterwards every session is read back."""
        wrong, numbers = Wrong(), [count() for _ in range(tasks)]
        acknowledged: list[list[Origin]] = [[] for _ in range(tasks)]
        last: dict[int, dict[str, str]] = {}

        async def step(task: int) -> None:
            origin = (task, next(numbers[task]))
            change = delta(*origin) | ({"app:hot": f"hot {task} {origin[1]}"} if hot else {})
            sessions[task] = await self._insist(sessions[task], origin, change, wrong)
            acknowledged[task].append(origin)
            last[task] = change

        answer = await repeat(tasks, request.seconds, step)
        for task, session in enumerate(sessions):
            stored, state = await self._system.stored(session, len(acknowledged[task]) + 100)
            expected = {key: value for key, value in last[task].items() if not key.startswith("app:")}
            is_there = all(state.get(key) == value for key, value in expected.items())
            mine = [origin for origin in stored if origin[0] >= 0]
            wrong.compare(acknowledged[task], mine, [] if is_there else acknowledged[task][-1:])
            if hot and task == 0 and state.get("app:hot") not in {change["app:hot"] for change in last.values()}:
                wrong.lost += 1
        return answer | {"wrong": wrong.counts()}

    async def _insist(self, session: Any, origin: tuple[int, int], change: dict[str, str], wrong: Wrong) -> Any:
        """Appends an event. After a refusal, reads the session again and tries again, as a correct program does."""
        while True:
            try:
                await self._system.append(session, origin, change)
                return session
            except Refused:
                wrong.refused += 1
                session = await self._system.reload(session)

    async def append_shared(self, request: Request) -> Answer:
        """Each task appends 25 events to one session, with its own keys and with the copy that it read at the
        beginning.

        This is repeated with new sessions until the time is over.
        """
        wrong, measured, begun = Wrong(), Measured(), time.perf_counter()
        while True:
            await self._share(request, wrong, measured)
            if time.perf_counter() - begun >= request.seconds:
                break
        answer = measured.answer()
        return answer | {"attempted": answer["operations"] + wrong.refused, "wrong": wrong.counts()}

    async def _share(self, request: Request, wrong: Wrong, measured: Measured) -> None:
        first = (await self._sessions(1, request.size))[0]
        held = [await self._system.reload(first) for _ in range(request.tasks)]
        numbers = [count() for _ in held]

        async def step(task: int) -> None:
            origin = (task, next(numbers[task]))
            change = {f"key-{task}-{origin[1]}": "written"}
            held[task] = await self._insist(held[task], origin, change, wrong)

        await measured.part(request.tasks, step, lambda _, done: done == SHARED_EVENTS)
        acknowledged = [(task, number) for task in range(request.tasks) for number in range(SHARED_EVENTS)]
        stored, state = await self._system.stored(first, len(acknowledged) * 2 + 100)
        lacking = [origin for origin in acknowledged if f"key-{origin[0]}-{origin[1]}" not in state]
        wrong.compare(acknowledged, [origin for origin in stored if origin[0] >= 0], lacking)

    async def get(self, request: Request) -> Answer:
        session = await self._long_session(request.size)

        async def step(_: int) -> None:
            found = (await self._system.whole(session))[1]
            assert found == request.size, f"{found} events"

        return await repeat(request.tasks, request.seconds, step)

    async def get_json(self, request: Request) -> Answer:
        session = await self._long_session(request.size)

        async def step(_: int) -> None:
            whole, _ = await self._system.whole(session)
            assert len(self._system.json(whole)) > request.size * 300

        return await repeat(request.tasks, request.seconds, step)

    async def get_recent(self, request: Request) -> Answer:
        session = await self._long_session(request.size)

        async def step(_: int) -> None:
            found = await self._system.recent(session, 10)
            assert found == min(10, request.size), f"{found} events"

        return await repeat(request.tasks, request.seconds, step)

    async def list(self, request: Request) -> Answer:
        app = f"{APP}-{request.size}"
        if ("list", request.size) not in self._kept:
            users = [user(n // SESSIONS_OF_A_USER) for n in range(request.size)]
            await self._system.fill_sessions(app, users, Preparation(request.size))
            self._kept["list", request.size] = True

        async def step(_: int) -> None:
            found = await self._system.listing(app, user(1))
            assert found == SESSIONS_OF_A_USER, f"{found} sessions"

        return await repeat(request.tasks, request.seconds, step)

    async def turn(self, request: Request) -> Answer:
        each = max(1, min(TURN_SESSIONS, TURN_EVENTS // request.size))
        sessions = [await self._sessions(each, request.size) for _ in range(request.tasks)]
        numbers = [count() for _ in sessions]
        # The first run loads much of the framework.
        await self._system.turn((await self._sessions(1, 0))[0])

        async def step(task: int) -> None:
            text = await self._system.turn(sessions[task][next(numbers[task]) % each])
            assert text == "It is done.", text

        return await repeat(request.tasks, request.seconds, step)

    async def _grown(self, number: int, events: int) -> list[Any]:
        """Creates sessions with everything that this many appends would leave in the store."""
        preparation, sessions = Preparation(number * events), []
        for _ in range(number):
            session = await self._session(0, preparation)
            await self._system.grow(session, events, preparation)
            sessions.append(session)
        return sessions

    async def size_on_disk(self, request: Request) -> Answer:
        """The growth of the database for each event of a session."""
        if self._system.store == "memory":
            raise Unsupported("this store keeps nothing on a disk.")
        before, begun = await self._system.disk(), time.perf_counter()
        await self._grown(1, request.size)
        return per_event(request.size, begun, await self._system.disk() - before)

    async def memory(self, request: Request) -> Answer:
        """Measures how much the resident memory grows for each event, in as many sessions as ten thousand events
        fill."""
        if self._system.store != "memory":
            raise Unsupported("this store keeps sessions in a database.")
        number = max(1, EVENTS_IN_MEMORY // request.size)
        before, begun = resident(), time.perf_counter()
        self._kept["memory", request.round] = await self._grown(number, request.size)
        return per_event(number * request.size, begun, resident() - before)

    async def cold_start(self, request: Request) -> Answer:
        """Starts this program again, on a store of its own, until it has created a session."""
        store, location = sys.argv[1:3]

        async def step(_: int) -> None:
            place = location
            if "://" not in location:
                place = str(Path(location) / f"start-{time.monotonic_ns()}")
                os.mkdir(place)
            command = [sys.executable, sys.argv[0], store, place]
            answer = await asyncio.to_thread(first_answer, command)
            assert json.loads(answer)["operations"] == 1, answer

        return await repeat(1, request.seconds, step, children)


def per_event(events: int, begun: float, grown: int) -> Answer:
    """The answer of a cell that counts bytes."""
    return {
        "operations": events,
        "seconds": time.perf_counter() - begun,
        "processor_seconds": None,
        "latencies_us": None,
        "wrong": None,
        "bytes": round(grown / events),
        "note": None,
    }


def first_answer(command: list[str]) -> bytes:
    """Starts a runner, and ends it as soon as it has created a session."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b'{"workload": "create", "seconds": 0}\n')
        child.stdin.flush()
        child.stdout.readline()
        answer = child.stdout.readline()
        child.kill()
    return answer


def children() -> float:
    """The processor time of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def resident() -> int:
    """The resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
