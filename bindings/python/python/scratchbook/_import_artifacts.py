"""Importing the files of google-adk's artifact service."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from google.genai import types

from ._errors import InvalidArgumentError, ScratchbookError
from .results import ImportedArtifacts

if TYPE_CHECKING:
    from ._artifacts import ScratchbookArtifactService

VERSIONS = "versions"
METADATA = "metadata.json"

_LOCAL = Path(".adk", "artifacts")
"""The place of an agent's artifacts in its folder, as `adk web` keeps them."""

_MISSING = {"scratchbook-import": "the source has no version of this number"}


class _Artifact(NamedTuple):
    """An artifact as its folder contains it."""

    app: str
    user: str
    session: str | None
    name: str
    folder: Path

    def __str__(self) -> str:
        return "/".join(part for part in (self.app, self.user, self.session, self.name) if part is not None)


async def import_artifacts(service: ScratchbookArtifactService, source: Any, app_name: str | None) -> ImportedArtifacts:
    """Writes the artifacts in the folders of a source, one by one."""
    done: ImportedArtifacts = {"artifacts": 0, "versions": 0, "skipped": 0, "refused": []}
    for root in _roots(_folder(source)):
        if not (root / "apps").is_dir() and app_name is None:
            raise InvalidArgumentError(f"'{root}' does not say of which app it is; name the app_name")
        for artifact in _artifacts(root, app_name):
            if app_name is None or artifact.app == app_name:
                try:
                    await _bring(service, artifact, done)
                except (ScratchbookError, OSError, ValueError) as error:
                    done["refused"].append({"artifact": str(artifact), "reason": str(error)})
    return done


def _folder(source: Any) -> Path:
    text = os.fspath(source) if isinstance(source, os.PathLike) else source
    if not isinstance(text, str):
        raise InvalidArgumentError(f"a source is a folder, not a {type(source).__name__}")
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise InvalidArgumentError(f"there is no folder '{folder}'")
    return folder


def _roots(folder: Path) -> list[Path]:
    """The folders of artifact services: this folder, or the folders of the agents in it."""
    wanted = [folder, folder / _LOCAL, *(agent / _LOCAL for agent in sorted(folder.iterdir()) if agent.is_dir())]
    found = [root for root in wanted if (root / "apps").is_dir() or (root / "users").is_dir()]
    if not found:
        raise InvalidArgumentError(
            f"'{folder}' has no artifacts of google-adk's: there is neither a folder apps nor one users, nor a folder "
            f"{_LOCAL.as_posix()} of an agent"
        )
    return found


def _artifacts(root: Path, app_name: str | None) -> Iterator[_Artifact]:
    """The artifacts of a folder, by `apps/APP/users/USER/[sessions/SESSION/]artifacts/NAME/versions`. The first three
    names contain slashes if their ids do."""
    for base in ("apps", "users"):
        if base == "users" and (app_name is None or (root / "apps").is_dir()):
            continue
        for folder, below, _ in os.walk(root / base):
            below.sort()
            parts = Path(folder).relative_to(root / base).parts
            # The folder is from a service that did not record its app.
            whole = parts if base == "apps" else (app_name or "", "users", *parts)
            if VERSIONS in below and (found := _parsed(whole, folder)):
                below.remove(VERSIONS)
                yield found if base == "apps" else found._replace(app=app_name or "")


def _parsed(parts: tuple[str, ...], folder: str) -> _Artifact | None:
    def until(start: int, *words: str) -> int | None:
        """The index of the first of these words that follows a name."""
        return next((at for at in range(start + 1, len(parts)) if parts[at] in words), None)

    users = until(0, "users")
    kind = None if users is None else until(users + 1, "artifacts", "sessions")
    if users is None or kind is None:
        return None
    named = kind if parts[kind] == "artifacts" else until(kind + 1, "artifacts")
    if named is None or named + 1 == len(parts):
        return None
    session = "/".join(parts[kind + 1 : named]) if named != kind else None
    name = "/".join(parts[named + 1 :])
    return _Artifact("/".join(parts[:users]), "/".join(parts[users + 1 : kind]), session, name, Path(folder))


async def _bring(service: ScratchbookArtifactService, artifact: _Artifact, done: ImportedArtifacts) -> None:
    numbers = {int(name) for name in os.listdir(artifact.folder / VERSIONS) if name.isdecimal()}
    if not numbers:
        return
    app, user, session = artifact.app, artifact.user, artifact.session
    name = f"user:{artifact.name}" if session is None else _own_name(artifact, max(numbers))
    here = await service.list_versions(app_name=app, user_id=user, session_id=session, filename=name)
    is_new = False
    for number in range(max(numbers) + 1):
        # A save that was killed left a gap in the numbers.
        part, metadata = _read(artifact, number) if number in numbers else (_gone(), _MISSING)
        if number in here:
            found = await service.load_artifact(
                app_name=app, user_id=user, session_id=session, filename=name, version=number
            )
            if not _same(found, part):
                raise InvalidArgumentError(
                    f"version {number} is here with other content; the artifact is left as it is"
                )
            done["skipped"] += number in numbers
            continue
        saved = await service.save_artifact(
            app_name=app, user_id=user, session_id=session, filename=name, artifact=part, custom_metadata=metadata
        )
        if saved != number:
            raise InvalidArgumentError(f"version {number} has become {saved}: somebody else saves it, too")
        done["versions"] += number in numbers
        done["artifacts"] += not is_new
        is_new = True


def _own_name(artifact: _Artifact, newest: int) -> str:
    """The name as its saver gave it; a folder's name has no backslash, and no spaces around it."""
    given = _metadata(artifact.folder / VERSIONS / str(newest)).get("fileName")
    if isinstance(given, str) and given.strip().replace("\\", "/") == artifact.name:
        return given
    return artifact.name


def _read(artifact: _Artifact, number: int) -> tuple[types.Part, dict[str, Any]]:
    """A version, and its custom metadata."""
    folder = artifact.folder / VERSIONS / str(number)
    metadata = _metadata(folder)
    data = (folder / artifact.folder.name).read_bytes()
    kept = metadata.get("customMetadata")
    beside = kept if isinstance(kept, dict) else {}
    mime_type = metadata.get("mimeType")
    if not mime_type:
        return types.Part(text=data.decode()), beside
    blob = types.Blob(mime_type=mime_type, data=data, display_name=metadata.get("displayName"))
    return types.Part(inline_data=blob), beside


def _metadata(folder: Path) -> dict[str, Any]:
    try:
        metadata = json.loads((folder / METADATA).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _gone() -> types.Part:
    """The part that google-adk's rewind saves for a deleted artifact: loading it returns nothing."""
    return types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))


def _same(here: types.Part | None, there: types.Part) -> bool:
    return here == there or (here is None and there == _gone())
