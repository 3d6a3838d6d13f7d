"""`adk api_server`, and the requests to it: turns, creations, reads and changes of the state."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from services import Opened
from shared.check import Origin, Wrong, origin_of_step
from shared.data import APP, CREATED, TEXT, delta, invocation, user
from shared.load import Client, free_port
from shared.measure import Preparation, repeat
from shared.protocol import Request, Workload

TURN_SESSIONS = 16
"""Over how many sessions the turns of a connection are spread, so that the sessions' length hardly changes."""
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


class Load:
    """The requests to one server, over one connection for each task."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._server: Server | None = None
        self._users = count()

    async def _started(self) -> Server:
        if self._server is None:
            self._server = Server(self._opened)
            await self._server.wait()
            # The first run loads the agent and much of google-adk.
            await self._warm_up()
        return self._server

    async def _warm_up(self) -> None:
        await self.http_turn(Request("http_turn", seconds=0))

    async def _connected(self, tasks: int) -> list[Client]:
        server = await self._started()
        return [await Client.connect(server.port) for _ in range(tasks)]

    async def _sessions(self, client: Client, tasks: int, size: int) -> list[str]:
        """Paths of new sessions with this many events."""
        preparation = Preparation(tasks * max(size, 1))
        return [await self._session(client, size, preparation) for _ in range(tasks)]

    async def _session(self, client: Client, size: int, preparation: Preparation) -> str:
        sessions = f"/apps/{APP}/users/http-{next(self._users)}/sessions"
        # The server takes no changes of the state with them.
        content = {"role": "model", "parts": [{"text": TEXT}]}
        events = [{"author": "agent", "invocationId": invocation(-1, n), "content": content} for n in range(size)]
        made = json.loads(await client.ask("POST", sessions, {"state": CREATED, "events": events}))
        preparation.advance(max(size, 1))
        return f"{sessions}/{made['id']}"

    async def _measure(self, request: Request, step: Any) -> dict[str, Any]:
        server = await self._started()
        return await repeat(request.tasks, request.seconds, step, lambda: server.processor() + time.process_time())

    async def http_create(self, request: Request) -> dict[str, Any]:
        clients = await self._connected(request.tasks)

        async def step(task: int) -> None:
            await clients[task].ask("POST", f"/apps/{APP}/users/{user(task)}/sessions", {"state": CREATED})

        return await self._measure(request, step)

    async def http_get(self, request: Request) -> dict[str, Any]:
        clients = await self._connected(request.tasks)
        path = (await self._sessions(clients[0], 1, request.size))[0]

        async def step(task: int) -> None:
            answer = await clients[task].ask("GET", path)
            assert len(answer) > request.size * 300, answer[:200]

        return await self._measure(request, step)

    async def http_patch(self, request: Request) -> dict[str, Any]:
        clients = await self._connected(request.tasks)
        paths = await self._sessions(clients[0], request.tasks, request.size)
        wrong, numbers = Wrong(), [count() for _ in clients]
        acknowledged: list[list[Origin]] = [[] for _ in clients]

        async def step(task: int) -> None:
            origin = (task, next(numbers[task]))
            await clients[task].ask("PATCH", paths[task], {"stateDelta": delta(*origin)})
            acknowledged[task].append(origin)

        answer = await self._measure(request, step)
        for task, path in enumerate(paths):
            found = json.loads(await clients[task].ask("GET", path))
            steps = [one["actions"]["stateDelta"]["step"] for one in found["events"][request.size :]]
            last = acknowledged[task][-1]
            is_there = found["state"]["step"] == delta(*last)["step"]
            wrong.compare(acknowledged[task], [origin_of_step(step) for step in steps], [] if is_there else [last])
        return answer | {"wrong": wrong.counts()}

    async def http_turn(self, request: Request) -> dict[str, Any]:
        clients = await self._connected(request.tasks)
        paths = await self._sessions(clients[0], request.tasks * TURN_SESSIONS, request.size)
        numbers = [count() for _ in clients]

        async def step(task: int) -> None:
            path = paths[task * TURN_SESSIONS + next(numbers[task]) % TURN_SESSIONS]
            _, _, app, _, whose, _, session = path.split("/")
            names = {"appName": app, "userId": whose, "sessionId": session}
            events = json.loads(await clients[task].ask("POST", "/run", {**names, "newMessage": MESSAGE}))
            assert events[-1]["content"]["parts"][0]["text"] == "It is done.", events[-1]

        return await self._measure(request, step)

    async def http_start(self, request: Request) -> dict[str, Any]:
        """Measures the time from the start of the server's process to its first answer."""

        async def step(_: int) -> None:
            server = Server(self._opened)
            await server.wait()
            server.stop()

        return await repeat(1, request.seconds, step)
