"""Everything that a session service of this package does, whatever its sessions and events are made of."""

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
    """A session service, with sessions and events of some make."""

    async def import_adk(self, source: Any, *, app_name: str | None = None) -> Imported:
        """Brings over the sessions of google-adk's: each whole, in one commit. A session that is here already is left
        as it is, whatever google-adk has appended to it since, and so is a key of a user or an app that was ever
        written here: it can be done again.

        What this store cannot hold, such as an integer of more than 64 bits, NaN or a value over its limits, is left
        out key by key and event by event; the rest of its session comes over. Each is in the answer, and a warning in
        the log `scratchbook`.

        Args:
            source: The URL of a database that google-adk's `DatabaseSessionService` or `SqliteSessionService` has
                filled, or one of its services, such as an `InMemorySessionService`. A database is read by google-adk
                in a process of its own.
            app_name: Only this app; has to be said of a service.

        Returns:
            How many `sessions` with how many `events` were written, how many were `skipped` since they are here, and
            what was `refused` and why.

        Raises:
            InvalidArgumentError: there is no such database, or it is none of google-adk's.
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
        """Follows what is committed: to a session, or to all of an app or of one user of it, by whomever.

        ```
        async for entry in service.watch(app_name="shop", user_id="alice"):
            if entry["type"] == "event":
                print(entry["event"]["actions"]["stateDelta"], entry["cursor"])
        ```

        What an entry has, and what becomes of a watch where sessions are deleted, is in `help(scratchbook.Watch)`.

        Args:
            session: One session; else all of an app, or of one user of it.
            key_prefix: Only what changes a key that begins so, scope and all: `user:cart`.
            start: From `now`, or from the `beginning`.
            cursor: After an entry that was given before, here or in another process: nothing is left out in between.
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
