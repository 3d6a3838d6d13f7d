"""The artifact service for google-adk."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError as _AdkInputValidation
from google.genai import types

from . import _errors, _url
from ._base import Address, Base
from ._json import dumps
from ._scratchbook import Artifacts, Store
from .results import ImportedArtifacts

USER = "user:"
"""The prefix in the name of a user's artifact, which all sessions of the user can load."""

_NO_SESSION = "user"
"""The session id in addresses of a user's artifacts, which a store ignores."""

_UNKNOWN = "application/octet-stream"
"""The MIME type of data without a MIME type."""

_MOST_REFERENCES = 5
"""The maximum number of references that are followed, as in google-adk."""

_REFERENCE = "artifact://"
_SEGMENT = r"(?:(?!/(?:apps|artifacts|sessions|users|versions)/).)+?"
_OF_SESSION = re.compile(
    rf"artifact://apps/({_SEGMENT})/users/({_SEGMENT})/sessions/({_SEGMENT})/artifacts/(.+)/versions/(\d+)"
)
_OF_USER = re.compile(rf"artifact://apps/({_SEGMENT})/users/({_SEGMENT})/artifacts/(.+)/versions/(\d+)")


class InputValidationError(_errors.InvalidArgumentError, _AdkInputValidation):
    """An invalid artifact or artifact name; also google-adk's `InputValidationError`."""


class ScratchbookArtifactService(BaseArtifactService):
    """Artifacts in the same store as the sessions: a drop-in `BaseArtifactService`.

    ```
    sessions = ScratchbookSessionService("sqlite:///scratchbook.db")
    artifacts = ScratchbookArtifactService(sessions)
    runner = Runner(app_name="shop", agent=agent, session_service=sessions, artifact_service=artifacts)
    ```

    Deleting a session deletes its artifacts. The artifacts of a user, whose names begin with `user:`, stay. A
    `session_id` of `None` means the user, as with google-adk's service in files; the name is listed with `user:`.
    """

    def __init__(self, uri: _url.Url | Base[Any, Any], *, agents_dir: Any = None, per_agent: Any = None) -> None:
        """Creates a service on the store of a session service, or on the store that a URL names. The store is opened at
        the first call.

        Args:
            uri: A `ScratchbookSessionService`, whose store is used, or a URL in the same form as for that class.
            agents_dir: Ignored. google-adk's command line passes it to every service.
            per_agent: Ignored, for the same reason.

        Raises:
            ValueError: the URL is invalid.
        """
        self._owned: Store | None = None
        if isinstance(uri, Base):
            store, self._url = uri._core, uri._url
        else:
            name = _url.store_uri(uri)
            store = self._owned = Store(name)
            self._url = _url.shown(name, store.uri)
        self._core = Artifacts(store)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    async def open(self) -> None:
        """Opens the store now instead of at the first call, so that a wrong URL or a missing database is reported
        now."""
        if self._owned is not None:
            await self._owned.open()

    async def close(self) -> None:
        """Closes the store, unless it belongs to a session service."""
        if self._owned is not None:
            await self._owned.close()

    async def __aenter__(self) -> ScratchbookArtifactService:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Saves a new version of an artifact, and returns the version's number, which counts from 0.

        Raises:
            InputValidationError: the part has no text, data or file, it refers to another app, user or session, or the
                name is invalid.
        """
        part = types.Part.model_validate(artifact) if isinstance(artifact, dict) else artifact
        if part.inline_data is not None:
            if part.inline_data.data is None:
                raise InputValidationError("Artifact inline_data must contain data.")
            if not part.inline_data.mime_type:
                part = part.model_copy(deep=True)
                assert part.inline_data is not None
                part.inline_data.mime_type = _UNKNOWN
        elif (reference := _reference_in(part)) is not None:
            _target(reference, app_name, user_id, session_id)
        try:
            text = part.model_dump_json(by_alias=True, exclude_none=True).encode()
            address, name = _place(app_name, user_id, session_id, filename)
            return await self._core.save(address, name, text, dumps(custom_metadata or {}))
        except _errors.PayloadTooLargeError:
            raise
        except _errors.InvalidArgumentError as error:
            raise InputValidationError(error.message) from error

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Returns the newest version of an artifact, or the given one. For a reference, returns its target.

        Raises:
            InputValidationError: a reference leads to another app, user or session, or too many follow each other.
        """
        for _ in range(_MOST_REFERENCES + 1):
            if version is not None and version < 0:
                return None
            address, name = _place(app_name, user_id, session_id, filename)
            text = await self._core.load(address, name, version)
            if text is None:
                return None
            part = types.Part.model_validate_json(text)
            reference = _reference_in(part)
            if reference is None:
                return None if _is_gone(part) else part
            session_id, filename, version = _target(reference, app_name, user_id, session_id)
        raise InputValidationError(f"more than {_MOST_REFERENCES} references lead on from one another: {reference}")

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """Returns the names of the artifacts of the session and the user, or only of the user if no session is
        given."""
        address, _ = _place(app_name, user_id, session_id, "")
        names: list[str] = json.loads(await self._core.list(address))
        return [name for name in names if session_id is not None or name.startswith(USER)]

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Deletes all versions of an artifact. Does nothing if the artifact is missing."""
        await self._core.delete(*_place(app_name, user_id, session_id, filename))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Returns the numbers of an artifact's versions, oldest first; an empty list if there is no such artifact."""
        address, name = _place(app_name, user_id, session_id, filename)
        return [known["version"] for known in await self._versions(address, name, has_metadata=False)]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Returns the metadata of an artifact's versions, oldest first."""
        address, name = _place(app_name, user_id, session_id, filename)
        found = await self._versions(address, name, has_metadata=True)
        return [_described(address, name, known) for known in found]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Returns the metadata of an artifact's newest version, or of the given one; `None` if it is missing."""
        address, name = _place(app_name, user_id, session_id, filename)
        if version is None:
            all_versions = await self._versions(address, name, has_metadata=False)
            version = all_versions[-1]["version"] if all_versions else 0
        if not 0 <= version < 1 << 63:
            return None
        page = json.loads(await self._core.versions(address, name, version, True))
        return next((_described(address, name, known) for known in page if known["version"] == version), None)

    async def import_adk(self, folder: Any, *, app_name: str | None = None) -> ImportedArtifacts:
        """Copies the artifacts that google-adk's `FileArtifactService` keeps in a folder. Versions keep their numbers,
        so that references in events stay valid. Existing versions are not changed, so the import can be repeated.

        Args:
            folder: The folder, or a `file://` URI of it; or the folder of the agents, in which `adk web` keeps a folder
                `.adk/artifacts` for each agent.
            app_name: Only this app. The folder of an older google-adk does not name its app: then `app_name` is
                required, and the whole folder is imported into that app.

        Returns:
            How many `artifacts` with how many `versions` were written, how many versions were `skipped` because they
                exist already, and what was `refused` and why.

        Raises:
            InvalidArgumentError: there is no such folder, or it contains no folder of google-adk's.
        """
        from ._import_artifacts import import_artifacts

        return await import_artifacts(self, folder, app_name)

    async def _versions(self, address: Address, name: str, *, has_metadata: bool) -> list[dict[str, Any]]:
        """Reads all versions, page by page."""
        found: list[dict[str, Any]] = []
        while page := json.loads(await self._core.versions(address, name, len(found), has_metadata)):
            found += page
        return found


def _described(address: Address, name: str, known: dict[str, Any]) -> ArtifactVersion:
    where = _address(address, name)
    return ArtifactVersion.model_validate({**known, "canonicalUri": f"{where}/versions/{known['version']}"})


def _place(app_name: str, user_id: str, session_id: str | None, filename: str) -> tuple[Address, str]:
    """Where a store keeps an artifact: the address of a session, and the artifact's name."""
    if session_id is None and not filename.startswith(USER):
        filename = f"{USER}{filename}"
    return (app_name, user_id, _NO_SESSION if session_id is None else session_id), filename


def _address(address: Address, name: str) -> str:
    """The address of an artifact in the form of google-adk's services. It names a row of the store."""
    app, user, session = (quote(part, safe="") for part in address)
    if name.startswith(USER):
        return f"scratchbook://apps/{app}/users/{user}/artifacts/{quote(name.removeprefix(USER))}"
    return f"scratchbook://apps/{app}/users/{user}/sessions/{session}/artifacts/{quote(name)}"


def _reference_in(part: types.Part) -> str | None:
    """The address of another artifact, if a part contains nothing else."""
    uri = part.file_data.file_uri if part.file_data else None
    return uri if uri and uri.startswith(_REFERENCE) else None


def _target(reference: str, app_name: str, user_id: str, session_id: str | None) -> tuple[str | None, str, int]:
    """The target of a reference: a session or none, a name and a version.

    Raises:
        InputValidationError: the text is not a reference, or its target belongs to another app, user or session.
    """
    if match := _OF_SESSION.fullmatch(reference):
        app, user, session, name, version = match.groups()
    elif match := _OF_USER.fullmatch(reference):
        (app, user, name, version), session = match.groups(), None
    else:
        raise InputValidationError(f"Invalid artifact reference URI: {reference}")
    if (app, user) != (app_name, user_id):
        raise InputValidationError("Artifact references must stay within the same app and user scope.")
    if session is not None and session != session_id:
        raise InputValidationError("Session-scoped artifact references must stay within the same session scope.")
    return session, name, int(version)


def _is_gone(part: types.Part) -> bool:
    """Whether a version marks the artifact as deleted. google-adk's rewind saves such versions."""
    blob = part.inline_data
    return blob is not None and not blob.data and blob == types.Blob(mime_type=_UNKNOWN, data=b"")
