"""Following the change feed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from . import _scratchbook
from ._appends import with_own_ids
from .results import FeedEntry


class Watch(AsyncIterator[FeedEntry]):
    """Commits as they happen: an asynchronous iterator without end, for one reader at a time.

    An entry is a dict with a `type`: `event`, with the `event` and its session; `created`, with the `state` that a
    session was created with; `state`, with `changes` to keys of a user or an app outside any session, which have no
    prefix there; or `removed`. `scratchbook.results` has the other keys. Its `cursor` is a place from which another
    watch can continue. A cancelled wait loses no entry.

    Deleting a session removes its events: those that were not read yet are no longer returned. The watch of one session
    ends with a `SessionNotFoundError` if that is deleted; the watch of a user or an app continues with what remains.
    """

    def __init__(self, feed: _scratchbook.Watch) -> None:
        self._feed = feed
        # The feed keeps an entry until a reader has taken it.
        self._taken = 0
        self._is_read = False

    async def start(self) -> Watch:
        """Starts now: later commits will be returned. Otherwise the watch starts when the first entry is requested."""
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
        """Ends the watch, also for a reader that waits for an entry."""
        self._feed.close()

    async def __aenter__(self) -> Watch:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
