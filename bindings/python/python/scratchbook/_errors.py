"""The exceptions of refused and failed calls.

A program can act on the class of an exception, or on its `kind`, which is the same information as a word. Once
`scratchbook.adk` is imported, classes that google-adk has as well are raised as subclasses of google-adk's.
"""

from __future__ import annotations

import json

from .results import KeyConflict


class ScratchbookError(Exception):
    """A call was refused or failed. Nothing has changed, unless the message says that a write may have taken
    effect."""

    kind: str = "internal"
    """The kind of the error as a word, which is the same in every programming language."""

    conflicts: list[KeyConflict]
    """The keys that caused a write to be refused, each with the values `read` and `found` and its last `writer`."""

    _is_retryable: bool | None = None

    def __init__(self, message: str, conflicts: list[KeyConflict] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.conflicts = conflicts or []

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later without a change. `False` if it may have taken effect, because a
        retry would apply it a second time."""
        if self._is_retryable is None:
            return self.kind in ("unavailable", "resource_exhausted", "conflict")
        return self._is_retryable


class InvalidArgumentError(ScratchbookError, ValueError):
    """The input is invalid, such as an id, a key, a number or a value. The same call never succeeds."""

    kind = "invalid_argument"


class NotFoundError(ScratchbookError, ValueError):
    """There is no such session, event, invocation, folder or database."""

    kind = "not_found"


class SessionNotFoundError(NotFoundError):
    """There is no such session. This is a separate class, because a program may create the session and continue."""


class AlreadyExistsError(ScratchbookError):
    """The id is already used with other content."""

    kind = "already_exists"


MODIFIED = "the session has been modified in storage since it was read"
"""A text in the message of google-adk's `StaleSessionError`. Programs search for it, since older versions of google-adk
have no such class."""


class StaleSessionError(ScratchbookError, ValueError):
    """Another write came first."""

    kind = "conflict"

    def __init__(self, message: str, conflicts: list[KeyConflict] | None = None) -> None:
        # A guard compares values, not times of writes, so the text would be wrong. A copied error has the text already.
        if MODIFIED not in message and not any(conflict["cause"] == "guard" for conflict in conflicts or ()):
            message = f"{message}; {MODIFIED}"
        super().__init__(message, conflicts)


class FailedPreconditionError(ScratchbookError, RuntimeError):
    """The call cannot succeed now: the store is closed, data was pruned, or an operation does not fit the stored
    value."""

    kind = "failed_precondition"


class ResourceExhaustedError(ScratchbookError):
    """A resource is used up and may be available again later: disk space, a place in a queue, a quota."""

    kind = "resource_exhausted"


class PayloadTooLargeError(ScratchbookError, ValueError):
    """A value, event, delta, artifact or answer has more bytes than a limit allows."""

    kind = "payload_too_large"


class UnauthenticatedError(ScratchbookError, PermissionError):
    """The server does not accept the user or the password."""

    kind = "unauthenticated"


class PermissionDeniedError(ScratchbookError, PermissionError):
    """The store or the file system does not allow the call."""

    kind = "permission_denied"


class UnavailableError(ScratchbookError, ConnectionError):
    """The store cannot be reached at the moment."""

    kind = "unavailable"


class UnsupportedError(ScratchbookError, NotImplementedError):
    """This store does not support the call."""

    kind = "unsupported"


class DataCorruptedError(ScratchbookError):
    """Stored data cannot be read back, or does not match its log."""

    kind = "data_corrupted"


NO_SESSION = "session_not_found"
"""The key in `CLASSES` for a missing session, since its `kind` is the same as for anything else that is not found."""

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


def make(kind: str, message: str, conflicts: str | None, is_retryable: bool) -> ScratchbookError:
    """The exception for an error of the compiled part, by its kind or `NO_SESSION`."""
    error = CLASSES.get(kind, ScratchbookError)(message, json.loads(conflicts) if conflicts else None)
    if kind not in CLASSES:
        error.kind = kind
    error._is_retryable = is_retryable
    return error
