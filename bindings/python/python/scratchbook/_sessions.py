"""Creating, reading and deleting sessions."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from ._base import Base, E, S
from ._errors import InvalidArgumentError
from ._json import check_keys, dumps
from ._wait import wait

Service = TypeVar("Service", bound="Sessions[Any, Any]")


class Sessions(Base[S, E]):
    """Methods for sessions, and for the state of users and apps."""

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> S:
        """Creates a session. `user:` and `app:` keys in `state` become state of the user and the app; `temp:` keys are
        not stored.

        Raises:
            AlreadyExistsError: the id is taken.
        """
        check_keys(state or {})
        config = dumps({"session_id": session_id, "state": state or {}})
        return self._make_session(*await self._core.create(app_name, user_id, config))

    async def get_session(self, *, app_name: str, user_id: str, session_id: str, config: Any = None) -> S | None:
        """Returns a session with merged state and its events in the order of their appends; `None` if it is absent.

        Args:
            config: Which events to return, as google-adk's `GetSessionConfig` or a dict. `num_recent_events` is how
                many of the last events, 0 for none; `after_timestamp` is the time from which events are returned.
        """
        recent, after = _read(config)
        found = await self._core.get((app_name, user_id, session_id), recent, after)
        return None if found is None else self._make_session(*found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session with its events, if it exists. State of the user and the app stays."""
        await self._core.delete((app_name, user_id, session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Returns the state of a user. Keys have no `user:` prefix."""
        state: dict[str, Any] = json.loads(await self._core.get_state(app_name, user_id))
        return state

    async def get_app_state(self, *, app_name: str) -> dict[str, Any]:
        """Returns the state of an app. Keys have no `app:` prefix."""
        state: dict[str, Any] = json.loads(await self._core.get_state(app_name))
        return state

    async def open(self) -> None:
        """Opens the store now instead of at the first call, so that a wrong URL or a missing database is reported now.
        A closed service cannot be opened again; create a new one."""
        await self._core.open()

    async def prepare_tables(self) -> None:
        """The same as `open`, under the name that google-adk's `DatabaseSessionService` uses."""
        await self.open()

    async def flush(self) -> None:
        """Does nothing. An event is already stored when its append returns."""

    async def close(self) -> None:
        """Completes running calls and closes the store. Later calls are refused."""
        await self._core.close()

    async def __aenter__(self: Service) -> Service:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def create_session_sync(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> S:
        """`create_session` without an event loop."""
        return wait(self.create_session(app_name=app_name, user_id=user_id, state=state, session_id=session_id))

    def get_session_sync(self, *, app_name: str, user_id: str, session_id: str, config: Any = None) -> S | None:
        """`get_session` without an event loop."""
        return wait(self.get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config))

    def delete_session_sync(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """`delete_session` without an event loop."""
        wait(self.delete_session(app_name=app_name, user_id=user_id, session_id=session_id))


def _read(config: Any) -> tuple[int | None, float | None]:
    if config is None:
        return None, None
    if isinstance(config, dict):
        unknown = config.keys() - {"num_recent_events", "after_timestamp"}
        if unknown:
            raise InvalidArgumentError(
                f"a session is not read by {', '.join(sorted(map(repr, unknown)))}; there are num_recent_events and "
                "after_timestamp"
            )
        recent, after = config.get("num_recent_events"), config.get("after_timestamp")
    else:
        try:
            recent, after = config.num_recent_events, config.after_timestamp
        except AttributeError:
            raise InvalidArgumentError(
                f"a config is google-adk's GetSessionConfig or a dict, not a {type(config).__name__}"
            ) from None
    if recent is not None and (not isinstance(recent, int) or recent < 0):
        raise InvalidArgumentError(f"num_recent_events is a number of events, 0 or more, not {recent!r}")
    if after is not None and not isinstance(after, (int, float)):
        raise InvalidArgumentError(f"after_timestamp is a time in seconds, not {after!r}")
    return recent, after
