"""All methods of this package's session services, independent of the types of sessions and events."""

from __future__ import annotations

from typing import Any, Literal

from ._base import Address, E, S
from ._errors import InvalidArgumentError
from ._import import import_adk
from ._operations import Operations
from ._past import Past
from ._sessions import Sessions
from ._watch import Watch
from .results import Imported


class SessionServiceOf(Sessions[S, E], Operations[S, E], Past[S, E]):
    """A session service, generic over the types of sessions and events."""

    async def import_adk(self, source: Any, *, app_name: str | None = None) -> Imported:
        """Copies google-adk's sessions: each whole, in one commit. An existing session is left as it is, whatever
        google-adk has appended to it since, and so is a key of a user or an app that was ever written here: the import
        can be repeated.

        Values that this store cannot hold, such as an integer of more than 64 bits, NaN or a value over its limits, are
        left out key by key and event by event; the rest of the session is imported. Each is in the result, and a
        warning in the log `scratchbook`.

        Args:
            source: The URL of a database that google-adk's `DatabaseSessionService` or `SqliteSessionService` has
                filled, or one of its services, such as an `InMemorySessionService`. A database is read by google-adk in
                a separate process.
            app_name: Only this app; required for a service.

        Returns:
            How many `sessions` with how many `events` were written, how many were `skipped` because they exist already,
                and what was `refused` and why.

        Raises:
            InvalidArgumentError: there is no such database, or it is not google-adk's.
            UnavailableError: it cannot be reached.
        """
        return await import_adk(self._core, source, app_name, self._keeps_repeated_ids, self._limits)

    def watch(
        self,
        session: S | Address | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        key_prefix: str = "",
        start: Literal["now", "beginning"] = "now",
        cursor: str | None = None,
    ) -> Watch:
        """Follows commits to a session, to an app or to one user of it, by any writer.

        ```
        async for entry in service.watch(app_name="shop", user_id="alice"):
            if entry["type"] == "event":
                print(entry["event"]["actions"]["stateDelta"], entry["cursor"])
        ```

        `help(scratchbook.Watch)` describes entries, and watches of deleted sessions.

        Args:
            session: One session; otherwise a whole app, or one user of it.
            key_prefix: Only changes of keys that begin with this, including the scope: `user:cart`.
            start: From `now`, or from the `beginning`.
            cursor: Continue after an earlier entry, also of another process: nothing in between is left out.
        """
        if session is not None and (app_name is not None or user_id is not None):
            raise InvalidArgumentError("watch what? give a session, or an app_name with a user_id or without, not both")
        if session is not None:
            named: tuple[str, str | None, str | None] = self._named(session)
        elif app_name is not None:
            named = (app_name, user_id, None)
        else:
            raise InvalidArgumentError("watch what? give a session, or an app_name with a user_id or without")
        return Watch(self._core.watch(named, key_prefix, start, cursor))
