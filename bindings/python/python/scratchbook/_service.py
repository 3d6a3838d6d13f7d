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
        """Copies google-adk's sessions, each in one commit. The import can be repeated: it does not change a session
        that exists already, even if google-adk has appended to it since, or a key of a user or an app that was ever
        written here.

        A store cannot hold some values, such as an integer of more than 64 bits, NaN or a value over its limits. Keys
        and events with such a value are left out, and the rest of the session is imported. Each one is listed in the
        result and logged as a warning by the logger `scratchbook`.

        Args:
            source: The URL of a database of google-adk's `DatabaseSessionService` or `SqliteSessionService`, or one of
                google-adk's services, such as an `InMemorySessionService`. google-adk reads the database in a separate
                process.
            app_name: Only this app is imported. Required if the source is a service.

        Returns:
            The numbers of written `sessions` and `events`, the number of sessions `skipped` because they exist already,
                and the list `refused` of what was left out, with the reasons.

        Raises:
            InvalidArgumentError: there is no such database, or it is not google-adk's.
            UnavailableError: the database cannot be reached.
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
        """Follows the commits of all writers to a session, an app, or one user of an app.

        ```
        async for entry in service.watch(app_name="shop", user_id="alice"):
            if entry["type"] == "event":
                print(entry["event"]["actions"]["stateDelta"], entry["cursor"])
        ```

        `help(scratchbook.Watch)` describes the entries, and what happens when a session is deleted.

        Args:
            session: Follow this session. Without it, follow an app, or one user of the app.
            key_prefix: Return only changes to keys that begin with this text. It includes the scope: `user:cart`.
            start: Start `now`, or at the `beginning` of the log.
            cursor: Continue after the entry with this cursor, which another process may have read. No entry is missed.
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
