"""`adk web` and `adk api_server` on these sessions, by a file `services.py` and a URI."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.cli.service_registry import ServiceRegistry

from scratchbook._url import with_options
from scratchbook.adk import ScratchbookArtifactService, ScratchbookSessionService, register

AGENT = """
from google.adk.agents import BaseAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

class Echo(BaseAgent):
    async def _run_async_impl(self, ctx):
        turn = ctx.session.state.get("turn", 0) + 1
        content = types.Content(role="model", parts=[types.Part(text=f"turn {turn}")])
        names = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
        part = types.Part(text=f"of turn {turn}")
        version = await ctx.artifact_service.save_artifact(**names, filename="note.txt", artifact=part)
        actions = EventActions(state_delta={"turn": turn, "user:last": turn}, artifact_delta={"note.txt": version})
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content, actions=actions)

root_agent = Echo(name="echo")
"""


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def serve(command: str, folder: Path, uri: str) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [command, str(folder), "--port", str(port), "--session_service_uri", uri, "--artifact_service_uri", uri]
    log = (folder.parent / f"{port}.log").open("wb")
    server = subprocess.Popen([sys.executable, "-m", "google.adk.cli", *words], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 90
    while True:
        try:
            ask(f"{url}/list-apps")
            return server, url
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                server.kill()
                raise AssertionError((folder.parent / f"{port}.log").read_text()) from None
            time.sleep(0.2)


@pytest.mark.parametrize(("command", "file"), [("web", "services.py"), ("api_server", "services.yaml")])
def test_google_adks_servers_keep_their_sessions_and_artifacts_here(tmp_path: Path, command: str, file: str) -> None:
    agents = tmp_path / "agents"
    (agents / "echo").mkdir(parents=True)
    (agents / "echo" / "agent.py").write_text(AGENT)
    (agents / "echo" / "__init__.py").write_text("from . import agent\n")
    if file == "services.py":
        (agents / file).write_text("from scratchbook.adk import register\n\nregister()\n")
    else:
        services = ", ".join(
            f"{{scheme: scratchbook+sqlite, type: {kind.lower()}, class: scratchbook.Scratchbook{kind}Service}}"
            for kind in ("Session", "Artifact")
        )
        (agents / file).write_text(f"services: [{services}]\n")
    uri = f"scratchbook+sqlite:///{tmp_path}/agents.db"
    message = {"role": "user", "parts": [{"text": "hi"}]}
    run = {"app_name": "echo", "user_id": "u", "session_id": "s", "new_message": message}
    for turn in (1, 2):
        server, url = serve(command, agents, uri)
        try:
            if turn == 1:
                ask(f"{url}/apps/echo/users/u/sessions/s", {"made": True})
            events = ask(f"{url}/run", run)
            assert events[-1]["content"]["parts"] == [{"text": f"turn {turn}"}]
            session = ask(f"{url}/apps/echo/users/u/sessions/s")
            assert session["state"] == {"made": True, "turn": turn, "user:last": turn}
            assert len(session["events"]) == 2 * turn
            artifacts = f"{url}/apps/echo/users/u/sessions/s/artifacts"
            assert ask(artifacts) == ["note.txt"]
            assert ask(f"{artifacts}/note.txt/versions") == list(range(turn))
            assert ask(f"{artifacts}/note.txt") == {"text": f"of turn {turn}"}
        finally:
            server.terminate()
            server.wait(30)


def test_adk_run_knows_the_urls_by_a_file_in_the_folder_of_its_agent(tmp_path: Path) -> None:
    echo = tmp_path / "agents" / "echo"
    echo.mkdir(parents=True)
    (echo / "agent.py").write_text(AGENT)
    (echo / "__init__.py").write_text("from . import agent\n")
    words = [sys.executable, "-m", "google.adk.cli", "run", "--session_service_uri"]
    words += [f"scratchbook+sqlite:///{tmp_path}/agents.db", str(echo)]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, input="hi\nexit\n", capture_output=True, text=True, cwd=tmp_path, timeout=120)

    services = "from scratchbook.adk import register\n\nregister()\n"
    (echo.parent / "services.py").write_text(services)
    assert run().returncode != 0 and not (tmp_path / "agents.db").exists()
    (echo / "services.py").write_text(services)
    done = run()
    assert done.returncode == 0 and "turn 1" in done.stdout, done
    assert (tmp_path / "agents.db").exists()


@pytest.mark.parametrize(
    "uri",
    [
        "scratchbook+memory:",
        "scratchbook+sqlite:///a.db",
        "scratchbook+sqlite+aiosqlite:///a.db",
        "scratchbook+postgresql+asyncpg://u:p@h/d",
        "scratchbook+postgres://u:p@h/d",
        "scratchbook+mysql+aiomysql://u:p@h/d",
        "scratchbook+mariadb://u:p@h/d",
    ],
)
def test_a_url_is_ours_whatever_driver_it_names(uri: str) -> None:
    registry = ServiceRegistry()
    register(registry)
    options = {} if "memory" in uri or "sqlite" in uri else {"pool_size": 5}
    service = registry.create_session_service(uri, agents_dir="agents", **options)
    assert isinstance(service, ScratchbookSessionService)
    assert not options or with_options(uri, options) == f"{uri}?pool_size=5"
    artifacts = registry.create_artifact_service(uri, agents_dir="agents", per_agent=True)
    assert isinstance(artifacts, ScratchbookArtifactService)
    with pytest.raises(ValueError, match="echo"):
        registry.create_session_service(uri, agents_dir="agents", echo=True)
