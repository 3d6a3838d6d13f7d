"""Importing artifacts that google-adk's file service has just written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.cli.utils.local_storage import create_local_artifact_service
from google.genai import types

from scratchbook import InvalidArgumentError
from scratchbook.adk import ScratchbookArtifactService

PICTURE = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG\x00", display_name="a.png"))

SAVED: list[tuple[str, str, str | None, str, types.Part]] = [
    ("shop", "alice", "s1", "note.txt", types.Part(text="one")),
    ("shop", "alice", "s1", "note.txt", types.Part(text="two ü")),
    ("shop", "alice", "s1", "folder/note.txt", types.Part(text="deep")),
    ("shop", "alice", "s1", "note.txt/inner", types.Part(text="inner")),
    ("shop", "alice", "s1", "user:photo.png", PICTURE),
    ("shop", "alice", None, "bare.png", PICTURE),
    ("shop", "team/bob", "users", "artifacts/a", types.Part(text="odd")),
    ("other", "alice", "s1", "note.txt", types.Part(text="of another app")),
]


async def fill(service: Any) -> None:
    for app, user, session, name, part in SAVED:
        await service.save_artifact(
            app_name=app,
            user_id=user,
            session_id=session,
            filename=name,
            artifact=part,
            custom_metadata={"n": 1},
        )


async def loaded(service: Any, *names: Any, version: int | None = None) -> Any:
    app, user, session, name = names
    return await service.load_artifact(app_name=app, user_id=user, session_id=session, filename=name, version=version)


async def test_each_version_is_here_under_its_number(tmp_path: Path, uri: str) -> None:
    theirs = FileArtifactService(tmp_path / "theirs")
    await fill(theirs)
    async with ScratchbookArtifactService(uri) as ours:
        done = await ours.import_adk(tmp_path / "theirs", app_name="shop")
        assert done == {"artifacts": 6, "versions": 7, "skipped": 0, "refused": []}
        for app, user, session, name, _ in SAVED[:-1]:
            of = {"app_name": app, "user_id": user, "session_id": session, "filename": name}
            there, here = await theirs.list_artifact_versions(**of), await ours.list_artifact_versions(**of)
            assert [(v.version, v.mime_type, v.custom_metadata) for v in here] == [
                (v.version, v.mime_type, v.custom_metadata) for v in there
            ]
            for version in there:
                of_theirs = await theirs.load_artifact(**of, version=version.version)
                assert await ours.load_artifact(**of, version=version.version) == of_theirs
        names = await ours.list_artifact_keys(app_name="shop", user_id="alice", session_id="s1")
        assert names == ["folder/note.txt", "note.txt", "note.txt/inner", "user:bare.png", "user:photo.png"]
        assert await loaded(ours, "other", "alice", "s1", "note.txt") is None
        again = await ours.import_adk((tmp_path / "theirs").as_uri())
        assert again == {"artifacts": 1, "versions": 1, "skipped": 7, "refused": []}
        await theirs.save_artifact(
            app_name="shop", user_id="alice", session_id="s1", filename="note.txt", artifact=types.Part(text="three")
        )
        assert (await ours.import_adk(tmp_path / "theirs"))["versions"] == 1
        assert (await loaded(ours, "shop", "alice", "s1", "note.txt")).text == "three"


async def test_a_text_is_what_was_saved_by_its_bytes(tmp_path: Path) -> None:
    of = {"app_name": "shop", "user_id": "alice", "session_id": "s1", "filename": "note.txt"}
    await FileArtifactService(tmp_path).save_artifact(**of, artifact=types.Part(text="one\r\ntwo\r"))
    async with ScratchbookArtifactService("memory:") as ours:
        await ours.import_adk(tmp_path)
        # google-adk itself reads it with other line endings.
        assert (await ours.load_artifact(**of)).text == "one\r\ntwo\r"


async def test_what_was_saved_here_meanwhile_stays_and_is_told(tmp_path: Path) -> None:
    await fill(FileArtifactService(tmp_path / "theirs"))
    async with ScratchbookArtifactService("memory:") as ours:
        mine = {"app_name": "shop", "user_id": "alice", "session_id": "s1", "filename": "note.txt"}
        await ours.save_artifact(**mine, artifact=types.Part(text="mine"))
        done = await ours.import_adk(tmp_path / "theirs")
        assert [refused["artifact"] for refused in done["refused"]] == ["shop/alice/s1/note.txt"]
        assert "other content" in done["refused"][0]["reason"]
        assert await ours.list_versions(**mine) == [0]
        assert (await ours.load_artifact(**mine)).text == "mine"


async def test_a_number_that_a_killed_save_has_left_out_stays_so(tmp_path: Path) -> None:
    await fill(FileArtifactService(tmp_path / "theirs"))
    versions = tmp_path / "theirs/apps/shop/users/alice/sessions/s1/artifacts/note.txt/versions"
    (versions / "1").rename(versions / "3")
    (versions / ".2.pending").mkdir()
    async with ScratchbookArtifactService("memory:") as ours:
        done = await ours.import_adk(tmp_path / "theirs")
        assert (done["versions"], done["refused"]) == (8, [])
        found = [await loaded(ours, "shop", "alice", "s1", "note.txt", version=n) for n in range(4)]
        assert [part and part.text for part in found] == ["one", None, None, "two ü"]
        assert (await ours.import_adk(tmp_path / "theirs"))["skipped"] == 8


async def test_one_that_cannot_be_read_is_told_and_the_rest_is_here(tmp_path: Path) -> None:
    await fill(FileArtifactService(tmp_path / "theirs"))
    folder = tmp_path / "theirs/apps/shop/users/alice/sessions/s1/artifacts/folder/note.txt/versions/0"
    (folder / "note.txt").unlink()
    damaged = tmp_path / "theirs/apps/shop/users/alice/artifacts/bare.png/versions/0/metadata.json"
    damaged.write_text("{")
    async with ScratchbookArtifactService("memory:") as ours:
        done = await ours.import_adk(tmp_path / "theirs")
        assert sorted(refused["artifact"] for refused in done["refused"]) == [
            "shop/alice/bare.png",
            "shop/alice/s1/folder/note.txt",
        ]
        assert done["versions"] == 6


async def test_the_folders_of_adk_web_are_found_in_that_of_its_agents(tmp_path: Path) -> None:
    for agent in ("shop", "other"):
        (tmp_path / agent).mkdir()
    await fill(create_local_artifact_service(base_dir=tmp_path, per_agent=True))
    async with ScratchbookArtifactService("memory:") as ours:
        assert (await ours.import_adk(tmp_path))["versions"] == len(SAVED)


async def test_a_folder_of_an_older_google_adk_says_no_app(tmp_path: Path) -> None:
    await fill(FileArtifactService(tmp_path / "theirs"))
    shutil.copytree(tmp_path / "theirs/apps/shop/users", tmp_path / "old/users")
    async with ScratchbookArtifactService("memory:") as ours:
        with pytest.raises(InvalidArgumentError, match="app_name"):
            await ours.import_adk(tmp_path / "old")
        assert (await ours.import_adk(tmp_path / "old", app_name="mine"))["versions"] == 7
        assert (await loaded(ours, "mine", "alice", "s1", "note.txt")).text == "two ü"


async def test_what_is_no_source_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps({}))
    async with ScratchbookArtifactService("memory:") as ours:
        for wrong in (tmp_path / "nope", tmp_path / "file", tmp_path, 7):
            with pytest.raises(InvalidArgumentError):
                await ours.import_adk(wrong)
