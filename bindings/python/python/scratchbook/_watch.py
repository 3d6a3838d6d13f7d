"""Following a feed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from . import _scratchbook


class Watch(AsyncIterator[dict[str, Any]]):
    """What is committed, as it comes: an asynchronous iterator without end, for one reader at a time.

    An entry has a `type`: `event`, with the `event` and whose session it is; `created`, with the `state` that a
    session was made with; or `state`, with `changes` to keys of a user or an app outside of any session. Its `cursor`
    is a place to go on from. A wait that is cancelled loses no entry.
    """

    def __init__(self, start: _scratchbook.Call[_scratchbook.Watch]) -> None:
        self._start: _scratchbook.Call[_scratchbook.Watch] | None = start
        self._feed: _scratchbook.Watch | None = None
        self._next: asyncio.Future[bytes] | None = None

    async def start(self) -> Watch:
        """Begins now: what is committed from here on will be given. The first entry that is asked for begins else."""
        if self._feed is None:
            start, self._start = self._start, None
            if start is None:
                raise RuntimeError("the watch was closed; begin another")
            self._feed = await start
        return self

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> dict[str, Any]:
        await self.start()
        assert self._feed is not None
        if self._next is None:
            self._next = asyncio.ensure_future(_next(self._feed))
        # Whoever is cancelled here leaves the entry to the next one who asks.
        try:
            text = await asyncio.shield(self._next)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._next = None
            raise
        self._next = None
        entry: dict[str, Any] = json.loads(text)
        return entry

    async def aclose(self) -> None:
        """Ends it; whoever waits for an entry hears so."""
        self._start = None
        if self._feed is not None:
            self._feed.close()
        if self._next is not None:
            pending, self._next = self._next, None
            await asyncio.gather(pending, return_exceptions=True)

    async def __aenter__(self) -> Watch:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


async def _next(feed: _scratchbook.Watch) -> bytes:
    return await feed.next()
