"""Point-in-time state, history, blame, rewind and fork."""

from __future__ import annotations

import json
from typing import Any

from ._appends import Appends, own_id, with_own_ids
from ._base import Address, E, S, no_session
from ._errors import InvalidArgumentError, NotFoundError
from .results import KeyDiff, KeyWrite, KeyWriter, Verified


class Past(Appends[S, E]):
    """Methods for a session's past: its state at any event, the writers of its keys, rewind and fork."""

    async def state_at(self, session: S | Address, at: int | str | E) -> dict[str, Any]:
        """Returns the merged state right after an event was committed. Keys have their prefixes, as in `session.state`.

        Args:
            at: The event, its id or its number. `history`, `blame` and `watch` call the number `seq`: it is 1 for the
                first event, and 0 for the session's creation.

        Raises:
            SessionNotFoundError: there is no such session.
            NotFoundError: the session has no such event.
        """
        address = self._named(session)
        state: dict[str, Any] = json.loads(await self._core.state_at(address, await self._seq(address, at)))
        return state

    async def diff(self, session: S | Address, before: int | str | E, after: int | str | E) -> dict[str, KeyDiff]:
        """Returns the keys whose values differ between two events, each with its value `before` and `after`. A key that
        was added or removed in between has only one of the two. Events are given as for `state_at`.

        Raises:
            NotFoundError: there is no such session or event.
        """
        address = self._named(session)
        first, second = await self._seq(address, before), await self._seq(address, after)
        keys: dict[str, KeyDiff] = json.loads(await self._core.diff(address, first, second))
        return keys

    async def history(
        self, session: S | Address, key: str, *, limit: int = 100, at: int | str | E | None = None
    ) -> list[KeyWrite]:
        """Returns the writes to a key, the latest first. Each has the written `value`, unless it is a removal, and the
        same fields about the writer as `blame`.

        Args:
            key: The key with its prefix. For `user:cart`, the result has the writes by all of the user's sessions and
                by `put_state`.
            limit: The maximum number of writes.
            at: The event up to whose commit the writes are returned, given as for `state_at`. By default all writes
                are returned.
        """
        if limit < 0:
            raise InvalidArgumentError(f"limit={limit} is no number of writes; limit=10 gives the last ten")
        address = self._named(session)
        seq = None if at is None else await self._seq(address, at)
        found = json.loads(await self._core.history(address, key, limit, seq))
        with_own_ids(found, "eventId")
        writes: list[KeyWrite] = found
        return writes

    async def blame(self, session: S | Address) -> dict[str, KeyWriter]:
        """Returns the last writer of each key of a session's merged state: the `author` and the `time`. For a write by
        an event, it also has the event's `userId`, `sessionId`, `seq` (its number), `eventId` and `invocationId`.
        """
        found = json.loads(await self._core.blame(self._named(session)))
        with_own_ids(found.values(), "eventId")
        writers: dict[str, KeyWriter] = found
        return writers

    async def rewind(self, session: S | Address, before_invocation_id: str) -> E:
        """Rewinds a session to the state before an invocation: its keys get their earlier values, and later keys are
        removed. State of the user and the app stays. Returns the event with these changes. If a session object was
        passed, it is refreshed.

        Raises:
            SessionNotFoundError: there is no such session.
            NotFoundError: no event of the session belongs to that invocation.
        """
        text = await self._core.rewind(self._named(session), before_invocation_id)
        if not isinstance(session, tuple):
            await self.refresh(session)
        return self._make_event(text)

    async def fork(self, session: S | Address, *, at: int | str | E | None = None, session_id: str | None = None) -> S:
        """Creates a new session of the same user from the events up to `at`, with the state right after that event.

        Args:
            at: The last event to copy, given as for `state_at`. By default all events are copied.
            session_id: The new session's id. By default an id is generated.
        """
        address = self._named(session)
        seq = None if at is None else await self._seq(address, at)
        return self._make_session(*await self._core.fork(address, seq, session_id))

    async def verify(
        self,
        session: S | Address | None = None,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
    ) -> Verified:
        """Recomputes the state of a session from its events, or the state of an app or a user from its log, and
        compares it with the stored state. Returns the number of `events` that were read and of `keys` that were
        compared. For a session, only its own keys are compared, without those of the user and the app. A change by
        hand that leaves the state as it was is found with the command's `seal` and `verify --against` only.

        Raises:
            DataCorruptedError: the states differ, or an event is missing; the message names the first difference.
        """
        if session is not None and (app_name is not None or user_id is not None):
            raise InvalidArgumentError(
                "verify what? give a session, or an app_name with a user_id or without, not both"
            )
        if session is not None:
            address = self._named(session)
            text = await self._core.verify(address)
            if text is None:
                raise no_session(address)
        elif app_name is not None:
            text = await self._core.verify_state(app_name, user_id)
        else:
            raise InvalidArgumentError("verify what? give a session, or an app_name with a user_id or without")
        verified: Verified = json.loads(text)
        return verified

    async def _seq(self, address: Address, at: int | str | E) -> int:
        if isinstance(at, int):
            if isinstance(at, bool) or at < 0:
                raise InvalidArgumentError(f"the events of a session are numbered from 1 on; {at} is none of them")
            return at
        try:
            event_id = at if isinstance(at, str) else self._id_of(at)
        except (AttributeError, KeyError, TypeError):
            raise InvalidArgumentError(
                f"an event is given as it was read, by its id or by its number, not as a {type(at).__name__}"
            ) from None
        if self._keeps_repeated_ids:
            return await self._seq_of_repeated(address, event_id, at)
        return await self._core.seq_of(address, event_id)

    async def _seq_of_repeated(self, address: Address, event_id: str, at: str | E) -> int:
        """The number of an event whose id may be repeated: the only event with the id, or the event with this
        content."""
        found = await self._core.get(address)
        if found is None:
            raise no_session(address)
        events = [event for event in json.loads(found[0])["events"] if own_id(event["id"]) == event_id]
        if len(events) > 1 and not isinstance(at, str):
            content = self._content(address, at)
            texts = [json.dumps({**event, "id": event_id}).encode() for event in events]
            events = [
                event
                for event, text in zip(events, texts, strict=True)
                if self._content(address, self._make_event(text)) == content
            ]
        if not events:
            raise NotFoundError(f"no event of {'/'.join(address)} has the id '{event_id}'")
        if len(events) > 1:
            numbers = ", ".join(str(event["seq"]) for event in events)
            raise InvalidArgumentError(f"the events {numbers} have the id '{event_id}'; give the number of one")
        seq: int = events[0]["seq"]
        return seq

    def _content(self, address: Address, event: E) -> Any:
        appending = self._prepare(address, event)
        content: dict[str, Any] = json.loads(appending.text) if appending is not None else {}
        content.pop("seq", None)
        return content
