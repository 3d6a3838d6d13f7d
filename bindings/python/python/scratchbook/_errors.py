"""What a call is refused with.

The classes say what went wrong, so that a program can act on it; `kind` has the same as a word. Once
`scratchbook.adk` is imported, they are google-adk's own classes as well, where google-adk has one.
"""

from __future__ import annotations

import json

from .results import KeyConflict


class ScratchbookError(Exception):
    """Why a call was refused, or failed. After it nothing has changed."""

    kind: str = "internal"
    """The class of the error, as a word; the same in every language."""

    conflicts: list[KeyConflict]
    """The keys for whose sake a write was refused, each with what was `read` and `found` and its last `writer`."""

    def __init__(self, message: str, conflicts: list[KeyConflict] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.conflicts = conflicts or []

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later without a change."""
        return self.kind in ("unavailable", "resource_exhausted", "conflict")


class InvalidArgumentError(ScratchbookError, ValueError):
    """Something that can never be right: a bad id, key, number or value."""

    kind = "invalid_argument"


class NotFoundError(ScratchbookError, ValueError):
    """There is no such session, event, invocation, folder or database."""

    kind = "not_found"


class SessionNotFoundError(NotFoundError):
    """There is no such session: of what is not found, what a program may make and go on."""


class AlreadyExistsError(ScratchbookError):
    """The id is in use, with other content."""

    kind = "already_exists"


MODIFIED = "the session has been modified in storage since it was read"
"""What programs look for in the message of google-adk's `StaleSessionError`, which had no class of its own before."""


class StaleSessionError(ScratchbookError, ValueError):
    """Somebody else's write came first."""

    kind = "conflict"

    def __init__(self, message: str, conflicts: list[KeyConflict] | None = None) -> None:
        # A guard of an operation speaks of the value alone, whenever it was written. A copy has the words already.
        if MODIFIED not in message and not any(conflict["cause"] == "guard" for conflict in conflicts or ()):
            message = f"{message}; {MODIFIED}"
        super().__init__(message, conflicts)


class FailedPreconditionError(ScratchbookError, RuntimeError):
    """Not in this state: closed, pruned, or an operation that is not for the value found."""

    kind = "failed_precondition"


class ResourceExhaustedError(ScratchbookError):
    """Something ran out that may be there again later: disk space, a queue, a quota."""

    kind = "resource_exhausted"


class PayloadTooLargeError(ScratchbookError, ValueError):
    """A value, event, delta, artifact or answer has more bytes than a limit allows."""

    kind = "payload_too_large"


class UnauthenticatedError(ScratchbookError, PermissionError):
    """The server does not accept the user or the password."""

    kind = "unauthenticated"


class PermissionDeniedError(ScratchbookError, PermissionError):
    """The store, or the file system, does not allow it."""

    kind = "permission_denied"


class UnavailableError(ScratchbookError, ConnectionError):
    """The store cannot be reached just now."""

    kind = "unavailable"


class UnsupportedError(ScratchbookError, NotImplementedError):
    """This store cannot do it."""

    kind = "unsupported"


class DataCorruptedError(ScratchbookError):
    """What is stored cannot be read back, or is not what its log says."""

    kind = "data_corrupted"


NO_SESSION = "session_not_found"
"""What `CLASSES` has the class under for a session that is not there, whose kind is that of all that is not found."""

CLASSES: dict[str, type[ScratchbookError]] = {NO_SESSION: SessionNotFoundError} | {
    known.kind: known
    for known in (
        InvalidArgumentError,
        NotFoundError,
        AlreadyExistsError,
        StaleSessionError,
        FailedPreconditionError,
        ResourceExhaustedError,
        PayloadTooLargeError,
        UnauthenticatedError,
        PermissionDeniedError,
        UnavailableError,
        UnsupportedError,
        DataCorruptedError,
    )
}


def make(kind: str, message: str, conflicts: str | None = None) -> ScratchbookError:
    """The exception for an error of the compiled part; its kind, or `NO_SESSION`."""
    known = CLASSES.get(kind)
    if known is None:
        error = ScratchbookError(message)
        error.kind = kind
        return error
    return known(message, json.loads(conflicts) if conflicts else None)
