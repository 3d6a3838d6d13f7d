"""Durable sessions and scoped state for AI agents: a drop-in session service for google-adk.

`ScratchbookSessionService` replaces google-adk's session services. `SessionService` has the same methods, works with
plain dicts and does not need google-adk. If google-adk is not installed, `ScratchbookSessionService` is another name
for `SessionService`. `ScratchbookArtifactService` replaces google-adk's artifact services and requires google-adk.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from ._errors import (
    AlreadyExistsError,
    DataCorruptedError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    ScratchbookError,
    SessionNotFoundError,
    StaleSessionError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
)
from ._plain import SessionService
from ._scratchbook import REMOVED, __version__
from ._wait import wait
from ._watch import Watch

if TYPE_CHECKING:
    from .adk import ScratchbookArtifactService, ScratchbookSessionService


_LATER = ("ScratchbookArtifactService", "ScratchbookSessionService")


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Importing google-adk takes a second, so it is imported only when a program needs it.
    found: Any
    if _has_adk() or name != "ScratchbookSessionService":
        found = getattr(importlib.import_module(".adk", __name__), name)
    else:
        found = SessionService
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def _has_adk() -> bool:
    try:
        return importlib.util.find_spec("google.adk") is not None
    except ModuleNotFoundError:
        return False


__all__ = [
    "REMOVED",
    "AlreadyExistsError",
    "DataCorruptedError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "NotFoundError",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "ScratchbookArtifactService",
    "ScratchbookError",
    "ScratchbookSessionService",
    "SessionNotFoundError",
    "SessionService",
    "StaleSessionError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedError",
    "Watch",
    "__version__",
    "wait",
]
