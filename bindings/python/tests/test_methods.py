"""Methods that google-adk's services do not have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.in_memory_session_service import InMemorySessionService

import scratchbook
from scratchbook import results


def keyed(delta: dict[str, Any], **more: Any) -> Event:
    more.setdefault("author", "agent")
    return Event(actions=EventActions(state_delta=delta), **more)


@pytest.fixture
async def session(service: Any, app: str) -> Any:
    """A session with three events."""
    session = await service.create_session(app_name=app, user_id="u", session_id="s", state={"step": 0, "draft": "x"})
    await service.append_event(session, keyed({"step": 1, "user:name": "Ann"}, invocation_id="one"))
    await service.append_event(session, keyed({"step": 2, "draft": scratchbook.REMOVED}, invocation_id="two"))
    await service.append_event(session, keyed({"step": 3, "user:name": "Bob"}, invocation_id="three", author="writer"))
    return session


async def test_operations_act_on_what_is_stored_and_move_the_callers_copy_on(service: Any, session: Any) -> None:
    copy = await service.get_session(app_name=session.app_name, user_id="u", session_id="s")
    assert await service.increment(session, "step") == 4
    # This copy has not seen the increment.
    assert await service.increment(copy, "step", 2.5) == 6.5
    assert await service.increment(copy, "app:new", -3) == -3
    assert await service.append_to(session, "log", {"a": 1}) == [{"a": 1}]
    assert await service.append_to(copy, "log", "b") == [{"a": 1}, "b"]
    assert await service.merge(session, "user:cart", {"milk": 1, "eggs": 2}) == {"milk": 1, "eggs": 2}
    assert await service.merge(copy, "user:cart", {"milk": None, "tea": 3}) == {"eggs": 2, "tea": 3}
    await service.remove(copy, "user:name")
    assert "user:name" not in copy.state and copy.state["step"] == 6.5
    assert (
        copy.events[-1].actions.state_delta == {"user:name": scratchbook.REMOVED} and copy.events[-1].author == "user"
    )
    await service.refresh(session)
    assert session.state == {"step": 6.5, "app:new": -3, "log": [{"a": 1}, "b"], "user:cart": {"eggs": 2, "tea": 3}}
    assert len(session.events) == 11


async def test_operations_need_no_session_in_hand(service: Any, session: Any) -> None:
    address = (session.app_name, "u", "s")
    assert await service.increment(address, "user:n", 2, author="job") == 2
    assert (await service.blame(address))["user:n"]["author"] == "job"
    with pytest.raises(scratchbook.NotFoundError):
        await service.increment((session.app_name, "u", "missing"), "n")


async def test_an_operation_that_is_not_for_the_value_changes_nothing(service: Any, session: Any) -> None:
    state = dict(session.state)
    with pytest.raises(scratchbook.FailedPreconditionError, match="user:name"):
        await service.increment(session, "user:name")
    with pytest.raises(scratchbook.FailedPreconditionError):
        await service.append_to(session, "step", 1)
    for number in (2**64, float("nan")):
        with pytest.raises(ValueError):
            await service.increment(session, "step", number)
    with pytest.raises(ValueError, match="temp:"):
        await service.increment(session, "temp:n")
    assert session.state == state and len(session.events) == 3


async def test_the_state_of_any_event_is_known(service: Any, session: Any) -> None:
    first, second, third = session.events
    assert await service.state_at(session, 0) == {"step": 0, "draft": "x"}
    assert await service.state_at(session, first) == {"step": 1, "draft": "x", "user:name": "Ann"}
    assert await service.state_at(session, second.id) == {"step": 2, "user:name": "Ann"}
    assert await service.state_at(session, 3) == session.state
    assert await service.diff(session, first, third) == {
        "step": {"before": 1, "after": 3},
        "draft": {"before": "x"},
        "user:name": {"before": "Ann", "after": "Bob"},
    }
    for missing in (4, "no such event"):
        with pytest.raises(scratchbook.NotFoundError):
            await service.state_at(session, missing)


async def test_only_a_session_that_is_not_there_is_google_adks_session_not_found_error(
    service: Any, session: Any, app: str
) -> None:
    missing = (app, "u", "missing")
    gone = await service.create_session(app_name=app, user_id="u", session_id="gone")
    await service.delete_session(app_name=app, user_id="u", session_id="gone")
    for call in (
        lambda: service.append_event(gone, keyed({"n": 1})),
        lambda: service.refresh(gone),
        lambda: service.increment(missing, "n"),
        lambda: service.state_at(missing, 1),
        lambda: service.state_at(missing, "event"),
        lambda: service.history(missing, "n"),
        lambda: service.blame(missing),
        lambda: service.rewind(missing, "one"),
        lambda: service.fork(missing),
        lambda: service.verify(missing),
        lambda: anext(service.watch(missing)),
    ):
        with pytest.raises(SessionNotFoundError) as caught:
            await call()
        assert isinstance(caught.value, scratchbook.SessionNotFoundError) and caught.value.kind == "not_found"
    for call in (
        lambda: service.state_at(session, 4),
        lambda: service.state_at(session, "no such event"),
        lambda: service.diff(session, 1, 4),
        lambda: service.history(session, "user:name", at=4),
        lambda: service.fork(session, at=4),
        lambda: service.rewind(session, "no such invocation"),
    ):
        with pytest.raises(scratchbook.NotFoundError) as other:
            await call()
        assert not isinstance(other.value, SessionNotFoundError)


async def test_who_wrote_what_is_known(service: Any, session: Any) -> None:
    history = await service.history(session, "draft")
    assert ["value" in write for write in history] == [False, True] and history[1]["value"] == "x"
    assert [write["value"] for write in await service.history(session, "user:name", limit=1)] == ["Bob"]
    for at, names in ((0, []), (2, ["Ann"]), (session.events[2], ["Bob", "Ann"])):
        assert [write["value"] for write in await service.history(session, "user:name", at=at)] == names
    assert [write["value"] for write in await service.history(session, "step", at=1)] == [1, 0]
    blame = await service.blame(session)
    assert blame["step"]["author"] == "writer" and blame["step"]["eventId"] == session.events[2].id
    assert blame["step"]["invocationId"] == "three" and blame["step"]["seq"] == 3


async def test_a_rewind_brings_back_what_was_before_the_invocation(service: Any, session: Any) -> None:
    event = await service.rewind(session, "two")
    assert event.actions.rewind_before_invocation_id == "two"
    # Also the state that the session was created with, which google-adk's own rewind loses.
    assert session.state == {"step": 1, "draft": "x", "user:name": "Bob"} and session.events[-1] == event
    with pytest.raises(scratchbook.NotFoundError):
        await service.rewind(session, "no such invocation")


async def test_a_fork_goes_its_own_way(service: Any, session: Any) -> None:
    fork = await service.fork(session, at=session.events[0], session_id="fork")
    assert fork.id == "fork" and fork.state == {"step": 1, "draft": "x", "user:name": "Bob"}
    assert fork.events == session.events[:1]
    await service.append_event(fork, keyed({"step": 100}))
    whole = await service.fork(session)
    assert whole.events == session.events and whole.state["step"] == 3
    assert await service.verify(fork) == {"events": 2, "keys": 2}


async def test_what_is_stored_is_verified(service: Any, session: Any, app: str) -> None:
    verified = await service.verify(session)
    assert (verified["events"], verified["keys"]) == (3, 1)
    assert await service.verify(app_name=app, user_id="u") == {"events": 2, "keys": 1}
    assert await service.verify(app_name=app) == {"events": 0, "keys": 0}
    with pytest.raises(scratchbook.NotFoundError):
        await service.verify((app, "u", "missing"))
    with pytest.raises(ValueError):
        await service.verify()


async def test_a_watch_gives_what_is_committed_and_goes_on_from_any_entry(service: Any, session: Any, app: str) -> None:
    seen = []
    async with service.watch(session, start="beginning") as watch:
        async for entry in watch:
            seen.append(entry)
            if len(seen) == 3:
                break
    assert [entry["event"]["id"] for entry in seen] == [event.id for event in session.events]
    assert [entry["event"]["seq"] for entry in seen] == [1, 2, 3]
    async with service.watch(session, cursor=seen[0]["cursor"]) as watch:
        assert (await anext(watch))["event"]["seq"] == 2


async def test_a_watch_hears_of_writes_by_others_and_loses_none_when_it_is_cancelled(
    service: Any, session: Any, app: str
) -> None:
    async with service.watch(app_name=app, user_id="u", key_prefix="user:") as watch:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(watch), 0.05)
        other = await service.create_session(app_name=app, user_id="u")
        await service.append_event(other, keyed({"own": 1}))
        entries = []
        for pauses in range(30):
            if pauses % 3 == 0:
                await service.increment(other, "user:n")
            waiting = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0.001 * (pauses % 5))
            waiting.cancel()
            # The wait is cancelled before an entry came, or just too late.
            entries += [
                entry for entry in await asyncio.gather(waiting, return_exceptions=True) if isinstance(entry, dict)
            ]
        while len(entries) < 10:
            entries.append(await asyncio.wait_for(anext(watch), 30))
        assert all(entry["sessionId"] == other.id for entry in entries)
        numbers = [entry["event"]["actions"]["stateDelta"]["user:n"] for entry in entries]
        assert numbers == list(range(1, 11))


async def test_a_watch_that_was_cancelled_as_it_began_has_begun_all_the_same(service: Any, session: Any) -> None:
    watch = service.watch(session)
    first = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await watch.start()
    await service.increment(session, "step")
    assert (await anext(watch))["event"]["seq"] == 4
    await watch.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await anext(watch)


async def test_who_waits_for_an_entry_hears_that_the_watch_was_closed(service: Any, session: Any) -> None:
    watch = await service.watch(session).start()
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0.05)
    await watch.aclose()
    with pytest.raises(scratchbook.FailedPreconditionError, match="closed"):
        await waiting
    with pytest.raises(ValueError):
        service.watch()


def test_a_watch_loses_no_entry_between_loops(uri: str, app: str) -> None:
    service = scratchbook.SessionService(uri)
    session = scratchbook.wait(service.create_session(app_name=app, user_id="u"))
    watch = service.watch(session)

    async def gives_up() -> None:
        await watch.start()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(watch), 0.05)

    async def reads() -> int:
        number: int = (await asyncio.wait_for(anext(watch), 30))["event"]["seq"]
        return number

    for number in (1, 2):
        asyncio.run(gives_up())
        scratchbook.wait(service.increment(session, "n"))
        assert asyncio.run(reads()) == number
    scratchbook.wait(service.close())


async def test_what_is_given_has_the_keys_that_its_type_has(service: Any, session: Any, app: str) -> None:
    def fits(given: dict[str, Any], kind: Any) -> None:
        assert kind.__required_keys__ <= given.keys() <= kind.__required_keys__ | kind.__optional_keys__

    await service.put_state({"of_all": 1, "gone": scratchbook.REMOVED}, app_name=app, author="admin")
    for writer in (await service.blame(session)).values():
        fits(writer, results.KeyWriter)
    for write in await service.history(session, "draft"):
        fits(write, results.KeyWrite)
    for difference in (await service.diff(session, 0, 3)).values():
        fits(difference, results.KeyDiff)
    fits(await service.verify(session), results.Verified)
    fits(await service.import_adk(InMemorySessionService(), app_name=app), results.Imported)
    kinds = {"event": results.EventEntry, "created": results.CreatedEntry, "state": results.StateEntry}
    seen = set()
    async with service.watch(app_name=app, start="beginning") as watch:
        while seen != kinds.keys():
            entry = await asyncio.wait_for(anext(watch), 30)
            seen.add(entry["type"])
            fits(entry, kinds[entry["type"]])
            for change in entry.get("changes", ()):
                fits(change, results.StateChange)
    with pytest.raises(scratchbook.StaleSessionError) as caught:
        copy = await service.get_session(app_name=app, user_id="u", session_id="s")
        await service.append_event(session, keyed({"step": 4}))
        await service.append_retrying(copy, lambda copy: keyed({"step": 5}), retries=0)
    fits(caught.value.conflicts[0], results.KeyConflict)
    fits(caught.value.conflicts[0]["writer"], results.KeyWriter)


async def test_a_watch_of_a_session_ends_where_the_session_does(service: Any, session: Any, app: str) -> None:
    async with service.watch(session) as watch:
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.05)
        await service.delete_session(app_name=app, user_id="u", session_id="s")
        with pytest.raises(SessionNotFoundError):
            await asyncio.wait_for(waiting, 30)


async def test_a_watch_is_for_one_reader_at_a_time(service: Any, session: Any) -> None:
    async with service.watch(session) as watch:
        first = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="waits for an entry"):
            await anext(watch)
        await service.increment(session, "n")
        assert (await first)["event"]["seq"] == 4
