"""Changes to state that the store itself applies to the stored values."""

from __future__ import annotations

import json
from typing import Any

from ._appends import Appends
from ._base import Address, E, S
from ._errors import InvalidArgumentError
from ._json import check_keys, dumps
from ._scratchbook import REMOVED


class Operations(Appends[S, E]):
    """Changes to state by operations."""

    async def increment(
        self, session: S | Address, key: str, by: int | float = 1, *, author: str = "user"
    ) -> int | float:
        """Increments a number when the change is committed, so concurrent increments all count. Returns the new number.

        An absent key counts as 0. As for every change, an event with the change is appended.
        """
        changed = await self._apply(session, key, {"increment": by}, author)
        number: int | float = changed[key]
        return number

    async def append_to(self, session: S | Address, key: str, item: Any, *, author: str = "user") -> list[Any]:
        """Appends an item to a list at the commit. An absent key counts as an empty list. Returns the new list."""
        changed = await self._apply(session, key, {"append": item}, author)
        items: list[Any] = changed[key]
        return items

    async def merge(self, session: S | Address, key: str, patch: Any, *, author: str = "user") -> Any:
        """Changes an object at the commit by a JSON Merge Patch (RFC 7386): each member replaces the stored one, and
        `None` removes it. Returns the new value."""
        return (await self._apply(session, key, {"mergePatch": patch}, author))[key]

    async def remove(self, session: S | Address, key: str, *, author: str = "user") -> None:
        """Removes a key from the stored state and from the caller's `session.state`."""
        await self._apply(session, key, "remove", author)

    async def _apply(self, session: S | Address, key: str, operation: Any, author: str) -> dict[str, Any]:
        check_keys({key: operation})
        if key.startswith("temp:"):
            raise InvalidArgumentError(f"'{key}' is never stored; set it in the session's state")
        event = self._new_event(author)
        if isinstance(session, tuple):
            appending = self._prepare(self._named(session), event)
            assert appending is not None
            answer = await self._send(appending, "merge", None, dumps({key: [operation]}))
            changed: dict[str, Any] = json.loads(answer[2] or b"{}")
            return changed
        return await self._append(session, event, "merge", {key: [operation]})

    async def put_state(
        self, changes: dict[str, Any], *, app_name: str, user_id: str | None = None, author: str
    ) -> None:
        """Changes state of a user, or of an app, outside any session. The change is logged with its author.

        Args:
            changes: The new values by key. Keys have no prefix here; the value `REMOVED` removes a key.

        Raises:
            ValueError: a key has a prefix, so it would be another key than intended.
        """
        check_keys(changes)
        for key in changes:
            if key.startswith(("user:", "app:", "temp:")):
                raise InvalidArgumentError(
                    f"the key '{key}' has a prefix; here keys are without: give a user_id or none"
                )
        steps = {
            key: ["remove" if isinstance(value, str) and value == REMOVED else {"set": value}]
            for key, value in changes.items()
        }
        await self._core.put_state(app_name, user_id, dumps(steps), author)
