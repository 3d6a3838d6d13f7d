"""Writes that google-adk's services lose, refuse or reorder."""

from __future__ import annotations

import asyncio
import copy
import random
import time
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session

import scratchbook
from scratchbook import ScratchbookSessionService


def keyed(delta: dict[str, Any], **more: Any) -> Event:
    return Event(author="agent", invocation_id="inv", actions=EventActions(state_delta=delta), **more)


async def again(service: Any, session: Session) -> Session:
    found = await service.get_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
    assert found is not None
    return found


async def test_a_hundred_of_a_hundred_increments_count(service: Any, app: str) -> None:
    sessions = [await service.create_session(app_name=app, user_id="u") for _ in range(2)]

    async def count(session: Session) -> None:
        for _ in range(50):
            assert await service.increment(session, "user:n") > 0
            await asyncio.sleep(0)

    await asyncio.gather(*(count(session) for session in sessions))
    assert await service.get_user_state(app_name=app, user_id="u") == {"n": 100}


async def test_a_hundred_of_a_hundred_increments_by_key_with_retry_count(service: Any, app: str) -> None:
    sessions = [await service.create_session(app_name=app, user_id="u") for _ in range(4)]

    async def count(session: Session) -> None:
        for _ in range(25):
            await service.append_retrying(
                session, lambda s: keyed({"user:n": s.state.get("user:n", 0) + 1}), retries=50
            )

    await asyncio.gather(*(count(session) for session in sessions))
    assert await service.get_user_state(app_name=app, user_id="u") == {"n": 100}


async def test_two_hundred_of_two_hundred_keys_of_eight_sessions_are_there(service: Any, app: str) -> None:
    sessions = [await service.create_session(app_name=app, user_id="u") for _ in range(8)]

    async def write(number: int, session: Session) -> None:
        for n in range(25):
            await service.append_event(session, keyed({f"user:k{number}_{n}": n, f"app:k{number}_{n}": n}))

    await asyncio.gather(*(write(number, session) for number, session in enumerate(sessions)))
    assert len(await service.get_user_state(app_name=app, user_id="u")) == 200
    assert len(await service.get_app_state(app_name=app)) == 200


async def test_copies_of_one_session_lose_nothing_and_are_not_refused(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u")
    copies = [await again(service, session) for _ in range(8)]

    async def write(number: int, copy: Session) -> None:
        for n in range(10):
            await service.append_event(copy, keyed({f"k{number}": n}))

    await asyncio.gather(*(write(number, copy) for number, copy in enumerate(copies)))
    whole = await again(service, session)
    assert len(whole.events) == 80 and whole.state == {f"k{n}": 9 for n in range(8)}
    verified = await service.verify(whole)
    assert (verified["events"], verified["keys"]) == (80, 8)


async def test_events_come_back_in_the_order_of_their_appends_whatever_their_times(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u")
    times = [5.0] * 10 + [3.0, 9.0, 1.0]
    for n, moment in enumerate(times):
        await service.append_event(session, keyed({}, id=f"{random.getrandbits(64):x}-{n}", timestamp=moment))
    assert [e.id for e in (await again(service, session)).events] == [e.id for e in session.events]


async def test_strict_refuses_who_has_not_seen_the_last_event(uri: str, app: str) -> None:
    async with ScratchbookSessionService(uri, conflict="strict") as service:
        first = await service.create_session(app_name=app, user_id="u")
        second = await again(service, first)
        await service.append_event(first, keyed({"a": 1}, timestamp=10.0))
        late = keyed({"b": 1, "temp:t": 1}, timestamp=10.0)
        with pytest.raises(StaleSessionError) as caught:
            await service.append_event(second, late)
        assert isinstance(caught.value, ValueError) and caught.value.is_retryable
        # Programs that are older than this class of google-adk search for this text.
        assert str(caught.value).count("modified in storage") == 1
        assert str(copy.copy(caught.value)) == str(caught.value)
        assert second.events == [] and second.state == {} and late.actions.state_delta == {"b": 1, "temp:t": 1}
        await service.append_event(first, keyed({"a": 2}))
        await service.refresh(second)
        await service.append_event(second, late)
        assert (await again(service, first)).state == {"a": 2, "b": 1}


async def test_strict_goes_by_google_adks_rule_where_a_copy_has_lost_its_mark(uri: str, app: str) -> None:
    async with ScratchbookSessionService(uri, conflict="strict") as service:
        session = await service.create_session(app_name=app, user_id="u")
        await service.append_event(session, keyed({"a": 1}, timestamp=5e9))
        current = Session.model_validate_json(session.model_dump_json())
        await service.append_event(current, keyed({"a": 2}, timestamp=6e9))
        with pytest.raises(StaleSessionError):
            await service.append_event(Session.model_validate_json(session.model_dump_json()), keyed({"a": 3}))


async def test_by_key_goes_by_values_where_a_copy_has_lost_its_mark(uri: str, app: str) -> None:
    async with ScratchbookSessionService(uri, conflict="by_key") as service:
        session = await service.create_session(app_name=app, user_id="u", state={"n": 5, "user:n": 5})
        await service.append_event(session, keyed({"a": 1}, timestamp=5e9))
        text = session.model_dump_json()
        await service.put_state({"n": 6}, app_name=app, user_id="u", author="other")
        await service.append_event(session, keyed({"n": 6}, timestamp=4e9))
        for key in ("n", "user:n"):
            with pytest.raises(StaleSessionError, match=f"'{key}'"):
                await service.append_event(Session.model_validate_json(text), keyed({key: 100}))
        await service.append_event(Session.model_validate_json(text), keyed({"a": 2, "b": 1}))
        stored = (await again(service, session)).state
        assert stored == {"n": 6, "user:n": 6, "a": 2, "b": 1}


async def test_by_key_refuses_only_who_writes_a_key_that_moved(uri: str, app: str) -> None:
    async with ScratchbookSessionService(uri, conflict="by_key") as service:
        first = await service.create_session(app_name=app, user_id="u", state={"user:n": 0})
        second = await service.create_session(app_name=app, user_id="u")
        copy = await again(service, first)
        await service.append_event(first, keyed({"a": 1, "user:n": 1}))
        await service.append_event(copy, keyed({"b": 1}))
        for late, key in ((copy, "a"), (copy, "user:n"), (second, "user:n")):
            with pytest.raises(StaleSessionError) as caught:
                await service.append_event(late, keyed({key: 2}))
            conflict = caught.value.conflicts[0]
            assert (conflict["key"], conflict["found"], conflict["cause"]) == (key, 1, "changed")
            assert conflict["writer"]["author"] == "agent"
        # A copy has seen what it wrote itself.
        await service.append_event(copy, keyed({"b": 2}))
        await service.append_event(first, keyed({"user:n": 2}))
        assert (await again(service, first)).state == {"a": 1, "b": 2, "user:n": 2}


async def test_services_of_one_database_see_each_others_writes(shared_uri: str, app: str) -> None:
    async with ScratchbookSessionService(shared_uri) as one, ScratchbookSessionService(shared_uri) as two:
        session = await one.create_session(app_name=app, user_id="u")
        copy = await again(two, session)
        await asyncio.gather(
            *(service.increment(mine, "app:n") for service, mine in ((one, session), (two, copy)) * 25)
        )
        assert await two.get_app_state(app_name=app) == {"n": 50}


async def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(scratchbook.InvalidArgumentError, match="by_key"):
        ScratchbookSessionService("memory:", conflict="optimistic")  # type: ignore[arg-type]


@pytest.mark.parametrize("conflict", ["strict", "by_key"])
async def test_appends_of_one_copy_at_the_same_time_are_not_stale_to_each_other(
    uri: str, app: str, conflict: Any
) -> None:
    async with ScratchbookSessionService(uri, conflict=conflict) as service:
        session = await service.create_session(app_name=app, user_id="u")
        await asyncio.gather(*(service.append_event(session, keyed({"n": n, "user:n": n})) for n in range(10)))
        await service.append_event(session, keyed({"n": 10, "user:n": 10}))
        assert len((await again(service, session)).events) == len(session.events) == 11


async def test_a_copy_that_stays_behind_for_long_costs_no_more_for_it(app: str) -> None:
    async with ScratchbookSessionService("memory:") as service:
        session = await service.create_session(app_name=app, user_id="u")
        await service.append_event(await again(service, session), keyed({"other": 1}))
        for n in range(1000):
            await service.append_event(session, keyed({"n": n, f"user:k{n % 5}": n}))
        assert len(service._seen_of(session)) < 3000
        await service.refresh(session)
        assert session.state["other"] == 1 and len(session.events) == 1001


@pytest.mark.parametrize("conflict", ["strict", "by_key"])
async def test_a_retry_after_a_lost_answer_is_not_stale(uri: str, app: str, conflict: Any) -> None:
    async with ScratchbookSessionService(uri, conflict=conflict) as service:
        session = await service.create_session(app_name=app, user_id="u")
        # The event is stored, although this copy never got the answer.
        sent = keyed({"n": 1, "user:n": 1})
        await service.append_event(await again(service, session), sent.model_copy(deep=True))
        await service.append_event(session, sent)
        await service.append_event(session, keyed({"n": 2, "user:n": 2}))
        assert session.state == (await again(service, session)).state == {"n": 2, "user:n": 2}
        assert len((await again(service, session)).events) == len(session.events) == 2


async def test_a_refresh_brings_what_others_did_in_its_place(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u", state={"a": 0})
    other = await again(service, session)
    await service.append_event(session, keyed({"a": 1}, id="1"))
    await service.append_event(other, keyed({"a": 2}, id="2"))
    # This event comes after one that the copy has not seen.
    await service.append_event(session, keyed({"b": 3, "temp:t": 1}, id="3"))
    assert [event.id for event in session.events] == ["1", "3"] and session.state == {"a": 1, "b": 3, "temp:t": 1}
    first = session.events[0]
    await service.refresh(session)
    assert [event.id for event in session.events] == ["1", "2", "3"] and session.state == {"a": 2, "b": 3}
    assert session.events[0] is first or session.events[0] == first
    # Another session with the same name.
    await service.delete_session(app_name=app, user_id="u", session_id=session.id)
    with pytest.raises(scratchbook.NotFoundError):
        await service.refresh(session)
    await service.create_session(app_name=app, user_id="u", session_id=session.id, state={"new": True})
    await service.refresh(session)
    assert session.state == {"new": True} and session.events == []


@pytest.mark.parametrize("conflict", ["merge", "strict", "by_key"])
async def test_a_copy_is_as_stored_after_appends_of_it_at_the_same_time(uri: str, app: str, conflict: Any) -> None:
    async with ScratchbookSessionService(uri, conflict=conflict) as service:
        for _ in range(10):
            session = await service.create_session(app_name=app, user_id="u")
            await asyncio.gather(*(service.append_event(session, keyed({"k": n, "user:k": n})) for n in range(12)))
            numbers = await asyncio.gather(*(service.increment(session, "n") for _ in range(12)))
            assert sorted(numbers) == list(range(1, 13))
            stored = await again(service, session)
            assert session.state == stored.state and session.last_update_time == stored.last_update_time
            assert [event.id for event in session.events] == [event.id for event in stored.events]
            # A later append is judged by what the copy has seen.
            await service.append_event(session, keyed({"n": session.state["n"] + 1}))
            assert (await again(service, session)).state["n"] == 13


async def test_a_copy_without_a_mark_is_as_stored_after_appends_of_it_at_the_same_time(uri: str, app: str) -> None:
    async with ScratchbookSessionService(uri) as service:
        for _ in range(10):
            made = await service.create_session(app_name=app, user_id="u")
            copy = Session.model_validate_json(made.model_dump_json())
            await asyncio.gather(*(service.append_event(copy, keyed({"k": n})) for n in range(12)))
            stored = await again(service, made)
            assert (copy.state, copy.last_update_time) == (stored.state, stored.last_update_time)
            assert [event.id for event in copy.events] == [event.id for event in stored.events]


async def test_a_refresh_amid_appends_of_its_copy_loses_none_and_doubles_none(uri: str, app: str) -> None:
    async with ScratchbookSessionService(uri) as service:
        session = await service.create_session(app_name=app, user_id="u")
        appends = [service.append_event(session, keyed({"k": n})) for n in range(30)]
        await asyncio.gather(*appends, *(service.refresh(session) for _ in range(10)))
        stored = await again(service, session)
        assert [event.id for event in session.events] == [event.id for event in stored.events]
        assert session.state == stored.state


@pytest.mark.parametrize("conflict", ["strict", "by_key"])
async def test_an_append_that_is_waited_for_does_not_wait_for_the_loop_that_stands_still(
    tmp_path: Any, app: str, conflict: Any
) -> None:
    async with ScratchbookSessionService(f"sqlite:///{tmp_path}/a.db", conflict=conflict) as service:
        session = await service.create_session(app_name=app, user_id="u")
        other = asyncio.ensure_future(service.append_event(session, keyed({"k": 1})))
        await asyncio.sleep(0)
        # The event is stored in the meantime, and not applied to the copy yet.
        time.sleep(0.3)
        begun = time.monotonic()
        with pytest.raises(StaleSessionError):
            service.append_event_sync(session, keyed({"k": 2}))
        assert time.monotonic() - begun < 2
        await other
        service.append_event_sync(session, keyed({"k": 2}))
        assert session.state == {"k": 2}
