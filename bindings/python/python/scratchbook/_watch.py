"""Following a feed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

from . import _scratchbook

T = TypeVar("T")


class Watch(AsyncIterator[dict[str, Any]]):
    """What is committed, as it comes: an asynchronous iterator without end, for one reader at a time.

    An entry has a `type`: `event`, with the `event` and whose session it is; `created`, with the `state` that a
    session was made with; or `state`, with `changes` to keys of a user or an app outside of any session. Its `cursor`
    is a place to go on from. A wait that is cancelled loses no entry.
    """

    def __init__(self, begin: Callable[[], Awaitable[_scratchbook.Watch]]) -> None:
        self._beginning = _Kept(begin)
        self._feed: _scratchbook.Watch | None = None
        self._entry = _Kept(self._next)
        self._is_closed = False

    async def start(self) -> Watch:
        """Begins now: what is committed from here on will be given. The first entry that is asked for begins else."""
        if self._is_closed:
            raise RuntimeError("the watch was closed; begin another")
        if self._feed is None:
            self._feed = await self._beginning.wait()
        return self

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> dict[str, Any]:
        await self.start()
        entry: dict[str, Any] = json.loads(await self._entry.wait())
        return entry

    async def aclose(self) -> None:
        """Ends it; whoever waits for an entry hears so."""
        self._is_closed = True
        if self._feed is not None:
            self._feed.close()
        await self._beginning.end()
        await self._entry.end()

    async def __aenter__(self) -> Watch:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _next(self) -> bytes:
        assert self._feed is not None
        return await self._feed.next()


class _Kept(Generic[T]):
    """Something to be waited for. Whoever is cancelled meanwhile leaves what comes to the next one who asks."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._under_way: asyncio.Future[T] | None = None

    async def wait(self) -> T:
        if self._under_way is None or self._under_way.cancelled():
            self._under_way = asyncio.ensure_future(self._await())
        under_way = self._under_way
        # Whoever is cancelled takes nothing, also where it has come by then.
        await asyncio.wait([under_way])
        if self._under_way is under_way:
            self._under_way = None
        return under_way.result()

    async def end(self) -> None:
        """Waits for the end of what is under way, whatever comes of it."""
        if self._under_way is not None:
            await asyncio.gather(self._under_way, return_exceptions=True)
            self._under_way = None

    async def _await(self) -> T:
        return await self._make()
