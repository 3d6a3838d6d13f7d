"""`adk api_server`, and the requests to it: turns, creations, reads and changes of the state."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services import Opened
from shared.check import Origin, Wrong, origin_of_step
from shared.data import APP, CREATED, TEXT, created, delta, invocation
from shared.load import Client, free_port
from shared.measure import Measured, Preparation, Step, repeat
from shared.protocol import Request, Workload

CHANGES = 10
"""How often a session is changed at most. The number is small, so that the session's length hardly changes."""
LAST_PHASE = 25.0
"""In which time after the start of a cell its last phase begins, in seconds."""
MESSAGE = {"role": "user", "parts": [{"text": "A room by the lake, please."}]}


def http_workloads(opened: Opened) -> dict[str, Workload]:
    """Every workload over HTTP by its name."""
    load = Load(opened)
    return {name: getattr(load, name) for name in ("http_turn", "http_create", "http_get", "http_patch", "http_start")}


class Server:
    """A server that answers; it ends with this process."""

    def __init__(self, opened: Opened) -> None:
        self.port = free_port()
        agents = Path(__file__).resolve().parent / "agents"
        options = ["--session_service_uri", opened.uri, "--artifact_service_uri", "memory://"]
        options += ["--memory_service_uri", "memory://", "--log_level", "error", "--port", str(self.port)]
        command = [sys.executable, "-m", "google.adk.cli", "api_server", *options, str(agents)]
        self._process = subprocess.Popen(command, stdout=sys.stderr)
        atexit.register(self.stop)

    async def wait(self) -> None:
        for _ in range(6000):
            try:
                client = await Client.connect(self.port)
                await client.ask("GET", "/health")
                return client.close()
            except OSError:
                await asyncio.sleep(0.01)
        raise RuntimeError("adk api_server does not answer")

    def processor(self) -> float:
        """The processor time of the server, in seconds."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")")[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True)
class Connection:
    """A connection, and its session in a phase."""

    task: int
    client: Client
    path: str


Exchange = Callable[[Connection, int], Awaitable[None]]
"""A request over a connection, numbered from 0 in each phase, and its answer."""
ReadBack = Callable[[int, int, dict[str, Any]], None]
"""What is done after a phase with the number of a task, the number of its requests and its session."""


class Load:
    """The requests to one server, over one connection for each task. Each connection has a user of its own."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._server: Server | None = None
        self._kept: dict[tuple[int, int], list[str]] = {}
        """The sessions that are only read, by their length and number. They are kept for later rounds."""

    async def _started(self) -> Server:
        if self._server is None:
            self._server = Server(self._opened)
            await self._server.wait()
            # The first runs load the agent and much of google-adk.
            await self.http_turn(Request("http_turn", seconds=0))
        return self._server

    async def _connected(self, tasks: int) -> list[Client]:
        server = await self._started()
        return [await Client.connect(server.port) for _ in range(tasks)]

    async def _processor(self) -> Callable[[], float]:
        """What returns the processor time of the server and of this process."""
        server = await self._started()
        return lambda: server.processor() + time.process_time()

    async def _sessions(self, request: Request) -> list[str]:
        """Paths of new sessions, one for each connection, with the events of the request."""
        [client], preparation = await self._connected(1), Preparation(request.tasks * max(request.size, 1))
        # The server takes no changes of the state with them.
        content = {"role": "model", "parts": [{"text": TEXT}]}
        ids = [invocation(-1, n) for n in range(request.size)]
        events = [{"author": "agent", "invocationId": one, "content": content} for one in ids]
        paths = []
        for task in range(request.tasks):
            made = json.loads(await client.ask("POST", sessions_of(task), {"state": CREATED, "events": events}))
            preparation.advance(max(request.size, 1))
            paths.append(f"{sessions_of(task)}/{made['id']}")
        client.close()
        return paths

    async def _in_phases(self, request: Request, step: Exchange, read_back: ReadBack | None = None) -> dict[str, Any]:
        """Measures requests that change sessions, in phases.

        All connections get a session each, then all of them begin together and send the same number of requests, or as
        many as they can in the time of the cell, then their sessions are read back.
        """
        measured, begun = Measured(await self._processor()), time.perf_counter()
        while True:
            await self._phase(request, measured, step, read_back)
            if measured.seconds >= request.seconds or time.perf_counter() - begun > LAST_PHASE:
                return measured.answer()

    async def _phase(self, request: Request, measured: Measured, step: Exchange, read_back: ReadBack | None) -> None:
        paths = await self._sessions(request)
        # New connections, because the server closes those that were idle for five seconds.
        clients = await self._connected(request.tasks)
        connections = [Connection(task, *one) for task, one in enumerate(zip(clients, paths, strict=True))]
        sent = [0 for _ in connections]

        async def numbered(task: int) -> None:
            await step(connections[task], sent[task])
            sent[task] += 1

        def is_over(elapsed: float, done: int) -> bool:
            return done == CHANGES or elapsed >= request.seconds

        await measured.part(request.tasks, numbered, is_over)
        for connection, done in zip(connections, sent, strict=True):
            if read_back is not None:
                read_back(connection.task, done, json.loads(await connection.client.ask("GET", connection.path)))
            connection.client.close()

    async def _repeat(self, request: Request, step: Step) -> dict[str, Any]:
        """Measures requests that change no session: they have one phase, which takes the whole time."""
        return await repeat(request.tasks, request.seconds, step, await self._processor())

    async def http_create(self, request: Request) -> dict[str, Any]:
        clients, body = await self._connected(request.tasks), {"state": created(request.size)}

        async def step(task: int) -> None:
            await clients[task].ask("POST", sessions_of(task), body)

        return await self._repeat(request, step)

    async def http_get(self, request: Request) -> dict[str, Any]:
        key = (request.size, request.tasks)
        if key not in self._kept:
            self._kept[key] = await self._sessions(request)
        clients, paths = await self._connected(request.tasks), self._kept[key]

        async def step(task: int) -> None:
            answer = await clients[task].ask("GET", paths[task])
            assert len(answer) > request.size * 300, answer[:200]

        return await self._repeat(request, step)

    async def http_patch(self, request: Request) -> dict[str, Any]:
        wrong = Wrong()

        async def step(connection: Connection, number: int) -> None:
            change = delta(connection.task, number)
            await connection.client.ask("PATCH", connection.path, {"stateDelta": change})

        answer = await self._in_phases(request, step, lambda *found: compare(wrong, request.size, *found))
        return answer | {"wrong": wrong.counts()}

    async def http_turn(self, request: Request) -> dict[str, Any]:
        async def step(connection: Connection, _: int) -> None:
            app, whose, session = connection.path.split("/")[2::2]
            names = {"appName": app, "userId": whose, "sessionId": session}
            events = json.loads(await connection.client.ask("POST", "/run", {**names, "newMessage": MESSAGE}))
            assert events[-1]["content"]["parts"][0]["text"] == "It is done.", events[-1]

        return await self._in_phases(request, step)

    async def http_start(self, request: Request) -> dict[str, Any]:
        """Measures the time from the start of the server's process to its first answer."""

        async def step(_: int) -> None:
            server = Server(self._opened)
            await server.wait()
            server.stop()

        return await repeat(1, request.seconds, step)


def sessions_of(task: int) -> str:
    """The path of the sessions of a connection's user."""
    return f"/apps/{APP}/users/http-{task}/sessions"


def compare(wrong: Wrong, size: int, task: int, done: int, found: dict[str, Any]) -> None:
    """Compares a session with the changes of its connection, which were all acknowledged."""
    acknowledged: list[Origin] = [(task, number) for number in range(done)]
    steps = [one["actions"]["stateDelta"]["step"] for one in found["events"][size:]]
    last = acknowledged[-1]
    is_there = found["state"]["step"] == delta(*last)["step"]
    wrong.compare(acknowledged, [origin_of_step(step) for step in steps], [] if is_there else [last])
