"""Following a feed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from . import _scratchbook
from ._appends import with_own_ids
from .results import FeedEntry


class Watch(AsyncIterator[FeedEntry]):
    """What is committed, as it comes: an asynchronous iterator without end, for one reader at a time.

    An entry is a dict with a `type`: `event`, with the `event` and whose session it is; `created`, with the `state`
    that a session was made with; or `state`, with `changes` to keys of a user or an app outside of any session, which
    have no prefix there. `scratchbook.results` has the other keys. Its `cursor` is a place to go on from. A wait that
    is cancelled loses no entry.

    A deletion is no entry, and takes the events of its session with it: of those that were not read yet nothing is
    told any more. The watch of one session ends with a `SessionNotFoundError` where that is deleted; the watch of a
    user or an app goes on with what is there.
    """

    def __init__(self, feed: _scratchbook.Watch) -> None:
        self._feed = feed
        # An entry stays with the feed until a reader has taken it.
        self._taken = 0
        self._is_read = False

    async def start(self) -> Watch:
        """Begins now: what is committed from here on will be given. The first entry that is asked for begins else."""
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
        """Ends it; whoever waits for an entry hears so."""
        self._feed.close()

    async def __aenter__(self) -> Watch:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
