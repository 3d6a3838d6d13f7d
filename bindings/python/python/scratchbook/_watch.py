"""Follows the change feed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from . import _scratchbook
from ._appends import with_own_ids
from .results import FeedEntry


class Watch(AsyncIterator[FeedEntry]):
    """Commits as they happen: an asynchronous iterator without end, for one reader at a time.

    Each entry is a dict with a `type`. `event`: an `event` was appended to a session. `created`: a session was created
    with a `state`. `state`: keys of a user or an app were changed outside any session; `changes` has them without
    prefix. `removed`: a session, a user, or events of a session were removed. `scratchbook.results` lists all keys. A
    watch with an entry's `cursor` continues after it. Cancelling a wait loses no entry.

    Deleting a session removes its events, and a watch does not return removed events. If the session of a watch is
    deleted, the watch ends with a `SessionNotFoundError`. The watch of a user or an app goes on.
    """

    def __init__(self, feed: _scratchbook.Watch) -> None:
        self._feed = feed
        # The feed keeps an entry until a reader has taken it.
        self._taken = 0
        self._is_read = False

    async def start(self) -> Watch:
        """Starts the watch now, so that it returns all later commits. By default it starts with the first request."""
        await self._feed.start()
        return self

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> FeedEntry:
        if self._is_read:
            raise RuntimeError("somebody waits for an entry of this watch already; begin another")
        self._is_read = True
        try:
            found = json.loads(await self._feed.next(self._taken))
            self._taken += 1
        finally:
            self._is_read = False
        if "event" in found:
            with_own_ids([found["event"]])
        entry: FeedEntry = found
        return entry

    async def aclose(self) -> None:
        """Ends the watch. A reader that waits for an entry stops waiting."""
        self._feed.close()

    async def __aenter__(self) -> Watch:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
