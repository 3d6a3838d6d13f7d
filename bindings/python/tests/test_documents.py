"""The Python programs of the documents. Each is taken from its page and run, and prints what the page shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("google.adk")

from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.genai import types

ROOT = Path(__file__).resolve().parents[3]
README, PACKAGE, START, VERTEX = "README.md", "bindings/python/README.md", "docs/start.md", "docs/vertex.md"

# The programs of each page, in the order of the page, each with the test that runs it.
RUN_BY = {
    README: ["test_the_readme"],
    PACKAGE: [
        "test_artifacts",
        "test_runner.py: test_the_exact_ways_of_the_description_are_exact",
        "test_runner.py: test_the_tool_of_the_description_loses_nothing_of_runs_at_the_same_time",
        "test_runner.py: test_a_refused_run_is_taken_back_and_run_again_as_the_description_has_it",
        "test_the_file_of_adk_web",
    ],
    START: ["test_the_first_20_minutes"],
    VERTEX: ["test_google_adk_over_http", "test_google_adk_over_http", "test_googles_other_clients"],
}

# The pages that show what changes in a program of google-adk. The program is run before and after the change.
CHANGED = [PACKAGE, "docs/google-adk.md"]

# The address of the server in the documents. The tests' server has another port.
SERVER = "http://127.0.0.1:8000"

# A user's own program, to which a page adds lines. Its agent needs no model.
OWN = """
import asyncio

from google.adk.agents import BaseAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.genai import types


class Greeter(BaseAgent):
    async def _run_async_impl(self, ctx):
        content = types.Content(role="model", parts=[types.Part(text="Hello")])
        yield Event(author=self.name, content=content, actions=EventActions(state_delta={"user:greeted": True}))


async def talk(runner):
    service = runner.session_service
    where = {"app_name": "shop", "user_id": "alice", "session_id": "s1"}
    if await service.get_session(**where) is None:
        await service.create_session(**where)
    message = types.Content(role="user", parts=[types.Part(text="Hi")])
    async for event in runner.run_async(user_id="alice", session_id="s1", new_message=message):
        print(event.author, event.content.parts[0].text)
    session = await service.get_session(**where)
    print(len(session.events), session.state)


agent = Greeter(name="greeter")
"""
TALK = "asyncio.run(talk(runner))\n"


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of code of a page: their language and their text."""
    return re.findall(r"^```([\w,]*)\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def programs(page: str) -> list[str]:
    return [text for language, text in blocks(page) if language == "python"]


def run(folder: Path, name: str, program: str) -> str:
    """Runs a program as a user does, in its own folder; returns what it prints."""
    (folder / name).write_text(program)
    done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    return done.stdout


def in_main(*lines: str) -> str:
    """A program in which these lines may await."""
    return f"async def main():\n{textwrap.indent(''.join(lines), '    ')}\nasyncio.run(main())\n"


def talked(events: int) -> str:
    """The text that `talk`, in the program of the page, prints."""
    return f"greeter Hello\n{events} {{'user:greeted': True}}\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server, which is started by the command of the package."""
    words = ["--json", "serve", "--port", "0", "--database", f"sqlite://{tmp_path}/served.db"]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen([sys.executable, "-m", "scratchbook", *words], stdout=subprocess.PIPE, stderr=log)
    with server:
        assert server.stdout
        greeting = server.stdout.readline()
        if not greeting:
            said = (tmp_path / "server.log").read_text()
            assert "was built without the command" in said, said
            pytest.skip("this package was built without the command; the step package runs this test")
        yield json.loads(greeting)["url"]
        server.terminate()


def test_every_program_of_the_documents_is_run() -> None:
    pages = [README, PACKAGE, *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
    found = {page: (ROOT / page).read_text().count("```py") for page in pages}
    assert {page: count for page, count in found.items() if count} == {
        page: len(tests) for page, tests in RUN_BY.items()
    }
    assert all(found[page] == len(programs(page)) for page in pages)
    for test in {test for tests in RUN_BY.values() for test in tests}:
        file, _, name = test.rpartition(": ")
        text = Path(__file__).with_name(file or Path(__file__).name).read_text()
        assert f"def {name}(" in text, test


def test_the_readme(tmp_path: Path) -> None:
    (program,) = programs(README)
    assert run(tmp_path, "shop.py", OWN + program + TALK) == talked(2)
    assert (tmp_path / "scratchbook.db").exists()


def test_the_first_20_minutes(tmp_path: Path) -> None:
    page = blocks(START)
    (at,) = [at for at, (language, _) in enumerate(page) if language == "python"]
    program, (language, shown) = page[at][1], page[at + 1]
    command, _, expected = shown.partition("\n")
    name = program.partition("\n")[0].removeprefix("# ")
    assert (language, command) == ("console", f"$ python {name}")
    assert run(tmp_path, name, program) == expected


def test_the_lines_that_change_in_a_program_of_google_adk(tmp_path: Path) -> None:
    # Only the comments of the pages differ.
    changes = {re.sub("  #.*", "", text) for page in CHANGED for language, text in blocks(page) if language == "diff"}
    (change,) = changes

    def side(mark: str) -> str:
        return "".join(line[1:] + "\n" for line in change.splitlines() if line[0] in (" ", mark))

    assert run(tmp_path, "before.py", OWN + in_main(side("-"), "await talk(runner)\n")) == talked(2)
    assert run(tmp_path, "after.py", OWN + in_main(side("+"), "await talk(runner)\n")) == talked(4)
    assert {"sessions.db", "scratchbook.db"} <= {file.name for file in tmp_path.iterdir()}


async def test_artifacts(tmp_path: Path) -> None:
    of = {"app_name": "shop", "user_id": "alice", "session_id": "s1", "filename": "note.txt"}
    await FileArtifactService(tmp_path / "agents").save_artifact(**of, artifact=types.Part(text="kept"))
    opened = (
        'from scratchbook import ScratchbookSessionService\nsession_service = ScratchbookSessionService("memory:")\n'
    )
    loaded = f"print((await runner.artifact_service.load_artifact(**{of})).text)\n"
    program = programs(PACKAGE)[0]
    assert run(
        tmp_path, "shop.py", OWN + in_main(opened, program, loaded, "await talk(runner)\n")
    ) == "kept\n" + talked(2)


def test_the_file_of_adk_web() -> None:
    """`test_command.py` runs google-adk's commands with a file that has the text of the page."""
    assert json.dumps(programs(PACKAGE)[-1]) in Path(__file__).with_name("test_command.py").read_text()


def test_google_adk_over_http(tmp_path: Path, server: str) -> None:
    services, program, _ = programs(VERTEX)
    (tmp_path / "services.py").write_text(services)
    assert SERVER in program
    assert run(tmp_path, "shop.py", OWN + program.replace(SERVER, server) + TALK) == talked(2)


def test_googles_other_clients(tmp_path: Path, server: str) -> None:
    program = programs(VERTEX)[-1]
    assert program.count(SERVER) == 2
    name = "projects/p/locations/l/reasoningEngines/shop/sessions/s1"
    assert run(tmp_path, "clients.py", program.replace(SERVER, server)) == f"{name} {{'cart': ['tea']}}\n"
