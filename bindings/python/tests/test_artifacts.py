"""Our artifact service behaves like google-adk's services. Each test also runs on google-adk's services."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

from conftest import LOCAL as OURS
from google.adk.agents import BaseAgent
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.genai import types

import scratchbook
from scratchbook.adk import ScratchbookArtifactService, ScratchbookSessionService

SERVICES = ("adk-memory", "adk-files", *OURS)
TEXT = types.Part(text="two apples")
PICTURE = types.Part(
    inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG\r\n\x00\xff\xfe", display_name="a.png")
)
GONE = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))


@pytest.fixture(params=SERVICES)
async def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """Each service, google-adk's first."""
    match request.param:
        case "adk-memory":
            yield InMemoryArtifactService()
        case "adk-files":
            yield FileArtifactService(tmp_path / "artifacts")
        case kind:
            uri = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/artifacts.db"
            async with ScratchbookArtifactService(uri) as service:
                yield service


@pytest.fixture
def of(app: str) -> dict[str, Any]:
    """A session for this test only."""
    return {"app_name": app, "user_id": "u", "session_id": "s"}


@pytest.mark.parametrize("part", [TEXT, PICTURE], ids=["text", "data"])
async def test_what_was_saved_is_loaded(artifacts: Any, of: dict[str, Any], part: types.Part) -> None:
    before = part.model_copy(deep=True)
    assert await artifacts.load_artifact(**of, filename="a") is None
    assert await artifacts.save_artifact(**of, filename="a", artifact=part) == 0
    assert part == before
    assert await artifacts.load_artifact(**of, filename="a") == part
    assert await artifacts.load_artifact(**of, filename="a", version=0) == part
    assert await artifacts.load_artifact(**of, filename="a", version=1) is None
    assert await artifacts.load_artifact(**of, filename="a", version=-1) is None


async def test_data_comes_back_byte_by_byte(artifacts: Any, of: dict[str, Any]) -> None:
    data = bytes(range(256)) * 40 + secrets.token_bytes(10_001)
    part = types.Part(inline_data=types.Blob(mime_type="application/pdf", data=data))
    await artifacts.save_artifact(**of, filename="a", artifact=part)
    assert (await artifacts.load_artifact(**of, filename="a")).inline_data.data == data


@pytest.mark.parametrize(
    "given",
    [
        {"inlineData": {"mimeType": "text/csv", "data": "YSxi"}},
        {"inline_data": {"mime_type": "text/csv", "data": "YSxi"}},
        {"text": "plain"},
    ],
)
async def test_a_dict_is_taken_for_a_part(artifacts: Any, of: dict[str, Any], given: dict[str, Any]) -> None:
    assert await artifacts.save_artifact(**of, filename="a", artifact=given) == 0
    assert await artifacts.load_artifact(**of, filename="a") == types.Part.model_validate(given)


async def test_versions_count_from_0_and_none_is_overwritten(artifacts: Any, of: dict[str, Any]) -> None:
    for number in range(3):
        assert await artifacts.save_artifact(**of, filename="a", artifact=types.Part(text=f"{number}")) == number
    assert await artifacts.list_versions(**of, filename="a") == [0, 1, 2]
    assert [(await artifacts.load_artifact(**of, filename="a", version=n)).text for n in range(3)] == ["0", "1", "2"]
    assert (await artifacts.load_artifact(**of, filename="a")).text == "2"
    assert await artifacts.list_versions(**of, filename="b") == []


async def test_what_is_known_of_versions(artifacts: Any, of: dict[str, Any]) -> None:
    await artifacts.save_artifact(**of, filename="a", artifact=PICTURE, custom_metadata={"from": "camera", "n": 1})
    await artifacts.save_artifact(**of, filename="a", artifact=PICTURE)
    known = await artifacts.list_artifact_versions(**of, filename="a")
    assert all(isinstance(version, ArtifactVersion) for version in known)
    assert [version.version for version in known] == [0, 1]
    assert [version.custom_metadata for version in known] == [{"from": "camera", "n": 1}, {}]
    assert {version.mime_type for version in known} == {"image/png"}
    assert all(
        version.canonical_uri.endswith(f"/versions/{version.version}") or "file://" in version.canonical_uri
        for version in known
    )
    assert 0 < known[0].create_time <= known[1].create_time
    assert await artifacts.get_artifact_version(**of, filename="a") == known[1]
    assert await artifacts.get_artifact_version(**of, filename="a", version=0) == known[0]
    assert await artifacts.get_artifact_version(**of, filename="a", version=2) is None
    assert await artifacts.get_artifact_version(**of, filename="b") is None
    assert await artifacts.list_artifact_versions(**of, filename="b") == []


async def test_names_are_listed_in_order_those_of_the_user_among_them(artifacts: Any, of: dict[str, Any]) -> None:
    assert await artifacts.list_artifact_keys(**of) == []
    for name in ("b.txt", "a.txt", "user:photo", "folder/deep.txt"):
        await artifacts.save_artifact(**of, filename=name, artifact=TEXT)
    assert await artifacts.list_artifact_keys(**of) == ["a.txt", "b.txt", "folder/deep.txt", "user:photo"]
    other = {**of, "session_id": "other"}
    assert await artifacts.list_artifact_keys(**other) == ["user:photo"]
    assert await artifacts.load_artifact(**other, filename="user:photo") == TEXT
    assert await artifacts.load_artifact(**other, filename="a.txt") is None
    assert await artifacts.list_artifact_keys(app_name=of["app_name"], user_id="u") == ["user:photo"]
    assert await artifacts.list_artifact_keys(**{**of, "user_id": "v"}) == []


async def test_a_users_artifact_needs_no_session(artifacts: Any, of: dict[str, Any]) -> None:
    user = {"app_name": of["app_name"], "user_id": "u"}
    assert await artifacts.save_artifact(**user, filename="user:photo", artifact=PICTURE) == 0
    assert await artifacts.save_artifact(**of, filename="user:photo", artifact=TEXT) == 1
    assert await artifacts.load_artifact(**user, filename="user:photo") == TEXT
    assert await artifacts.list_versions(**user, filename="user:photo") == [0, 1]
    await artifacts.delete_artifact(**user, filename="user:photo")
    assert await artifacts.load_artifact(**of, filename="user:photo") is None


async def test_what_is_deleted_is_gone_and_what_lies_in_it_is_not(artifacts: Any, of: dict[str, Any]) -> None:
    for name in ("doc", "doc/nested"):
        await artifacts.save_artifact(**of, filename=name, artifact=TEXT)
    await artifacts.delete_artifact(**of, filename="doc")
    await artifacts.delete_artifact(**of, filename="never")
    assert await artifacts.list_artifact_keys(**of) == ["doc/nested"]
    assert await artifacts.load_artifact(**of, filename="doc") is None
    assert await artifacts.list_versions(**of, filename="doc") == []
    assert await artifacts.save_artifact(**of, filename="doc", artifact=TEXT) == 0


@pytest.mark.parametrize("part", [types.Part(), types.Part(function_call=types.FunctionCall(name="f"))])
async def test_a_part_that_holds_nothing_is_refused(artifacts: Any, of: dict[str, Any], part: types.Part) -> None:
    with pytest.raises(InputValidationError):
        await artifacts.save_artifact(**of, filename="a", artifact=part)
    assert await artifacts.load_artifact(**of, filename="a") is None


async def test_what_a_rewind_has_taken_back_is_not_there(artifacts: Any, of: dict[str, Any]) -> None:
    await artifacts.save_artifact(**of, filename="a", artifact=TEXT)
    await artifacts.save_artifact(**of, filename="a", artifact=GONE)
    assert await artifacts.load_artifact(**of, filename="a") is None
    assert await artifacts.load_artifact(**of, filename="a", version=0) == TEXT


async def test_saves_at_the_same_time_get_versions_of_their_own(artifacts: Any, of: dict[str, Any]) -> None:
    saves = [artifacts.save_artifact(**of, filename="a", artifact=types.Part(text=str(n))) for n in range(8)]
    versions = await asyncio.gather(*saves)
    assert sorted(versions) == list(range(8))
    for n, version in enumerate(versions):
        assert (await artifacts.load_artifact(**of, filename="a", version=version)).text == str(n)


REFERRING = ("adk-memory", *OURS)


@pytest.mark.parametrize("artifacts", REFERRING, indirect=True)
async def test_a_reference_leads_to_what_it_names_within_its_scope(artifacts: Any, of: dict[str, Any]) -> None:
    def to(name: str, version: int = 0, app: str = of["app_name"], session: str = "sessions/s/") -> types.Part:
        uri = f"artifact://apps/{app}/users/u/{session}artifacts/{name}/versions/{version}"
        return types.Part(file_data=types.FileData(file_uri=uri))

    await artifacts.save_artifact(**of, filename="a", artifact=TEXT)
    await artifacts.save_artifact(**of, filename="a", artifact=PICTURE)
    await artifacts.save_artifact(**of, filename="b", artifact=to("a"))
    await artifacts.save_artifact(**of, filename="c", artifact=to("b"))
    assert await artifacts.load_artifact(**of, filename="c") == TEXT
    await artifacts.save_artifact(**of, filename="self", artifact=to("self"))
    with pytest.raises(InputValidationError):
        await artifacts.load_artifact(**of, filename="self")
    for wrong in (to("a", app="other"), to("a", session="sessions/other/"), to("a", session="nonsense/")):
        with pytest.raises(InputValidationError):
            await artifacts.save_artifact(**of, filename="d", artifact=wrong)


@pytest.mark.parametrize("artifacts", ("adk-files", *OURS), indirect=True)
@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/passwd", "C:\\a", "a/versions/b"])
async def test_a_name_is_no_path_out_of_here(artifacts: Any, of: dict[str, Any], name: str) -> None:
    with pytest.raises(InputValidationError):
        await artifacts.save_artifact(**of, filename=name, artifact=TEXT)
    assert await artifacts.list_artifact_keys(**of) == []


@pytest.mark.parametrize("artifacts", OURS, indirect=True)
async def test_ids_that_would_be_odd_paths_are_ids(artifacts: Any, of: dict[str, Any]) -> None:
    for user in ("../x", "a/b", "/abs", "ü 🙂"):
        odd = {**of, "user_id": user}
        await artifacts.save_artifact(**odd, filename="a b/ü", artifact=types.Part(text=user))
        assert (await artifacts.load_artifact(**odd, filename="a b/ü")).text == user
        assert await artifacts.list_artifact_keys(**odd) == ["a b/ü"]


@pytest.mark.parametrize("artifacts", OURS, indirect=True)
async def test_without_a_session_a_name_is_the_users(artifacts: Any, of: dict[str, Any]) -> None:
    user = {"app_name": of["app_name"], "user_id": "u"}
    await artifacts.save_artifact(**user, filename="photo", artifact=PICTURE)
    assert await artifacts.list_artifact_keys(**user) == ["user:photo"]
    assert await artifacts.load_artifact(**of, filename="user:photo") == PICTURE
    assert await artifacts.load_artifact(**user, filename="photo") == PICTURE
    version = await artifacts.get_artifact_version(**user, filename="photo")
    assert version.canonical_uri == f"scratchbook://apps/{of['app_name']}/users/u/artifacts/photo/versions/0"


async def test_sessions_and_artifacts_of_one_store_go_together(uri: str, app: str) -> None:
    of = {"app_name": app, "user_id": "u", "session_id": "s"}
    async with ScratchbookSessionService(uri) as sessions:
        artifacts = ScratchbookArtifactService(sessions)
        await sessions.create_session(**of)
        for name in ("own", "user:kept"):
            await artifacts.save_artifact(**of, filename=name, artifact=TEXT)
        await sessions.delete_session(**of)
        assert await artifacts.list_artifact_keys(**of) == ["user:kept"]
        await artifacts.close()
        assert await sessions.get_session(**of) is None  # The store's owner closes it.


class Saver(BaseAgent):
    """Saves the user's message as an artifact."""

    async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
        text = ctx.user_content.parts[0].text
        assert ctx.artifact_service is not None
        names = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
        version = await ctx.artifact_service.save_artifact(**names, filename="note", artifact=types.Part(text=text))
        actions = EventActions(artifact_delta={"note": version})
        yield Event(author=self.name, invocation_id=ctx.invocation_id, actions=actions)


async def test_google_adks_runner_saves_and_rewinds_here(uri: str, app: str) -> None:
    of = {"app_name": app, "user_id": "u", "session_id": "s"}
    async with ScratchbookSessionService(uri) as sessions:
        artifacts = ScratchbookArtifactService(sessions)
        runner = Runner(app_name=app, agent=Saver(name="saver"), session_service=sessions, artifact_service=artifacts)
        await sessions.create_session(**of)
        runs = []
        for text in ("one", "two"):
            message = types.UserContent(text)
            events = [event async for event in runner.run_async(user_id="u", session_id="s", new_message=message)]
            runs.append(events[-1].invocation_id)
        assert (await artifacts.load_artifact(**of, filename="note")).text == "two"
        await runner.rewind_async(user_id="u", session_id="s", rewind_before_invocation_id=runs[1])
        assert (await artifacts.load_artifact(**of, filename="note")).text == "one"
        await runner.rewind_async(user_id="u", session_id="s", rewind_before_invocation_id=runs[0])
        assert await artifacts.load_artifact(**of, filename="note") is None


def test_the_name_is_there_for_all() -> None:
    assert scratchbook.ScratchbookArtifactService is ScratchbookArtifactService
    assert "ScratchbookArtifactService" in dir(scratchbook)
    assert repr(ScratchbookArtifactService("postgresql://u:secret@h/d")) == (
        "ScratchbookArtifactService('postgresql://u@h/d')"
    )
    with pytest.raises(ValueError, match="no store"):
        ScratchbookArtifactService("redis://x")
