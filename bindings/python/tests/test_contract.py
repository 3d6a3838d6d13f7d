"""The behaviour that google-adk expects of every session service."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

import scratchbook


def event(author: str = "agent", **delta: Any) -> Event:
    return Event(author=author, invocation_id="inv", actions=EventActions(state_delta=delta))


def keyed(delta: dict[str, Any], **more: Any) -> Event:
    return Event(author="agent", invocation_id="inv", actions=EventActions(state_delta=delta), **more)


async def again(service: Any, session: Session, **config: Any) -> Session:
    given = GetSessionConfig(**config) if config else None
    found = await service.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id, config=given
    )
    assert found is not None
    return found


async def test_it_is_one_of_google_adks(service: Any) -> None:
    assert isinstance(service, BaseSessionService)


async def test_a_session_is_made_read_listed_and_deleted(service: Any, app: str) -> None:
    made = await service.create_session(app_name=app, user_id="u", state={"key": "value"}, session_id=" s1 ")
    assert (made.id, made.app_name, made.user_id, made.state, made.events) == ("s1", app, "u", {"key": "value"}, [])
    assert made.last_update_time > 1e9
    assert await again(service, made) == made
    listed = await service.list_sessions(app_name=app, user_id="u")
    assert [(s.id, s.state, s.events) for s in listed.sessions] == [("s1", {"key": "value"}, [])]
    await service.delete_session(app_name=app, user_id="u", session_id="s1")
    assert await service.get_session(app_name=app, user_id="u", session_id="s1") is None
    # Succeeds if there is none.
    await service.delete_session(app_name=app, user_id="u", session_id="s1")
    await service.delete_session(app_name=app, user_id="u", session_id="")


async def test_an_id_is_made_where_none_is_given(service: Any, app: str) -> None:
    ids = {(await service.create_session(app_name=app, user_id="u", session_id=given)).id for given in (None, "", "  ")}
    assert len(ids) == 3 and all(ids)


async def test_a_session_that_is_not_there_is_none(service: Any, app: str) -> None:
    for session_id in ("missing", "", " "):
        assert await service.get_session(app_name=app, user_id="u", session_id=session_id) is None
    assert (await service.list_sessions(app_name=app, user_id="u")).sessions == []


async def test_a_taken_id_is_google_adks_already_exists_error(service: Any, app: str) -> None:
    await service.create_session(app_name=app, user_id="u", session_id="s", state={"user:a": 1})
    with pytest.raises(AlreadyExistsError) as caught:
        await service.create_session(app_name=app, user_id="u", session_id="s", state={"user:a": 2})
    assert isinstance(caught.value, scratchbook.AlreadyExistsError) and caught.value.kind == "already_exists"
    assert await service.get_user_state(app_name=app, user_id="u") == {"a": 1}
    # The same id of another user, or in another app, is another session.
    await service.create_session(app_name=app, user_id="other", session_id="s")
    await service.create_session(app_name=app + "2", user_id="u", session_id="s")


async def test_an_append_to_a_missing_session_is_google_adks_session_not_found_error(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u")
    await service.delete_session(app_name=app, user_id="u", session_id=session.id)
    lost = keyed({"a": 1, "temp:t": 2})
    with pytest.raises(SessionNotFoundError) as caught:
        await service.append_event(session, lost)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, scratchbook.NotFoundError)
    # After an error, neither the session nor the event has changed.
    assert session.events == [] and session.state == {} and lost.actions.state_delta == {"a": 1, "temp:t": 2}


async def test_state_goes_to_its_scopes(service: Any, app: str) -> None:
    first = await service.create_session(
        app_name=app, user_id="u1", state={"app:a": 1, "user:b": 2, "c": 3, "temp:d": 4, "weird:e": 5}
    )
    assert first.state == {"app:a": 1, "user:b": 2, "c": 3, "weird:e": 5}
    second = await service.create_session(app_name=app, user_id="u1")
    assert second.state == {"app:a": 1, "user:b": 2}
    other = await service.create_session(app_name=app, user_id="u2")
    assert other.state == {"app:a": 1}
    await service.append_event(second, keyed({"app:a": 10, "user:b": 20, "c": 30}))
    assert (await again(service, first)).state == {"app:a": 10, "user:b": 20, "c": 3, "weird:e": 5}
    assert (await again(service, other)).state == {"app:a": 10}
    assert await service.get_user_state(app_name=app, user_id="u1") == {"b": 20}
    assert await service.get_user_state(app_name=app, user_id="u2") == {}
    assert await service.get_app_state(app_name=app) == {"a": 10}


async def test_an_append_changes_the_callers_objects_as_google_adks_does(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u", state={"n": 1})
    delta = {"n": 2, "temp:t": object(), "user:x": None}
    appended = keyed(delta, timestamp=1_795_194_011.5)
    assert await service.append_event(session, appended) is appended
    assert session.events == [appended] and session.events[0] is appended
    assert session.state["n"] == 2 and session.state["temp:t"] is delta["temp:t"] and session.state["user:x"] is None
    assert session.last_update_time == 1_795_194_011.5
    # The delta has no temp: keys, and is no longer the caller's dict.
    assert appended.actions.state_delta == {"n": 2, "user:x": None} and "temp:t" in delta
    stored = await again(service, session)
    assert stored.state == {"n": 2, "user:x": None} and stored.last_update_time == session.last_update_time
    assert stored.events == [appended]


async def test_what_was_appended_stays_whatever_becomes_of_the_callers_objects(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u", state={"cart": ["tea"]})
    call = types.Part(function_call=types.FunctionCall(id="adk-1", name="add", args={"x": [1]}))
    asked = keyed({"cart": ["tea", "milk"]}, content=types.Content(role="model", parts=[call]))
    await service.append_event(session, asked)
    call.function_call.id = None
    call.function_call.args["x"].append(2)
    asked.actions.state_delta["cart"].append("sugar")
    session.state["cart"].append("salt")
    stored = await again(service, session)
    (kept,) = stored.events[0].get_function_calls()
    assert (kept.id, kept.args) == ("adk-1", {"x": [1]})
    assert stored.state == {"cart": ["tea", "milk"]} and stored.events[0].actions.state_delta == stored.state


async def test_a_partial_event_is_given_back_and_nothing_is_stored(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u")
    piece = keyed({"a": 1, "temp:b": 2}, partial=True)
    assert await service.append_event(session, piece) is piece
    assert piece.actions.state_delta == {"a": 1, "temp:b": 2} and session.state == {} and session.events == []
    assert (await again(service, session)).events == []


async def test_null_is_a_value_and_a_dict_replaces_another_whole(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u", state={"d": {"a": 1, "b": 2}, "n": 1, "t": True})
    await service.append_event(session, keyed({"d": {"a": 3}, "n": None}))
    assert (await again(service, session)).state == session.state == {"d": {"a": 3}, "n": None, "t": True}


async def test_the_last_events_and_those_from_a_time_on_are_read(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u")
    for n in range(1, 6):
        await service.append_event(session, keyed({}, timestamp=float(n)))

    async def times(**config: Any) -> list[float]:
        return [event.timestamp for event in (await again(service, session, **config)).events]

    assert await times() == [1, 2, 3, 4, 5]
    assert await times(num_recent_events=3) == [3, 4, 5]
    assert await times(num_recent_events=0) == []
    assert await times(after_timestamp=4.0) == [4, 5]
    assert await times(after_timestamp=7.0) == []
    assert await times(after_timestamp=2.0, num_recent_events=2) == [4, 5]
    with pytest.raises(ValueError):
        GetSessionConfig(num_recent_events=-1)


async def test_lists_begin_with_the_session_updated_longest_ago(service: Any, app: str) -> None:
    made = [
        await service.create_session(app_name=app, user_id=user, session_id=f"s{n}")
        for n, user in enumerate(["u", "v", "u", ""])
    ]
    for session, moment in zip(made, [4e9, 2e9, 3e9, 5e9], strict=True):
        await service.append_event(session, keyed({"n": 1, "user:n": session.id}, timestamp=moment))
    every = (await service.list_sessions(app_name=app)).sessions
    assert [s.id for s in every] == ["s1", "s2", "s0", "s3"]
    assert all(s.state["n"] == 1 and s.events == [] for s in every)
    assert [s.id for s in (await service.list_sessions(app_name=app, user_id="u")).sessions] == ["s2", "s0"]
    assert [s.id for s in (await service.list_sessions(app_name=app, user_id="")).sessions] == ["s3"]


async def test_a_list_is_whole_however_long(service: Any, app: str) -> None:
    await asyncio.gather(*(service.create_session(app_name=app, user_id="u") for _ in range(1100)))
    assert len((await service.list_sessions(app_name=app)).sessions) == 1100


async def test_every_field_of_an_event_comes_back(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u")
    full = Event(
        author="agent",
        invocation_id="inv",
        branch="a.b",
        partial=False,
        turn_complete=True,
        interrupted=False,
        error_code="e",
        error_message="m",
        custom_metadata={"k": [1, {"x": None}]},
        long_running_tool_ids={"t2", "t1"},
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="hi", thought=True, thought_signature=b"\x00\xff"),
                types.Part.from_bytes(data=bytes(range(256)), mime_type="image/png"),
                types.Part(function_call=types.FunctionCall(id="c", name="f", args={"a": 1.5, "none": None})),
                types.Part(function_response=types.FunctionResponse(id="c", name="f", response={"r": [True]})),
            ],
        ),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=3),
        grounding_metadata=types.GroundingMetadata(web_search_queries=["q"]),
        citation_metadata=types.CitationMetadata(citations=[types.Citation(uri="http://x")]),
        finish_reason=types.FinishReason.STOP,
        actions=EventActions(
            skip_summarization=True,
            state_delta={"a": 1},
            artifact_delta={"f": 2},
            transfer_to_agent="x",
            escalate=True,
            agent_state={"s": 1},
            end_of_agent=True,
            rewind_before_invocation_id="i",
        ),
    )
    before = copy.deepcopy(full)
    await service.append_event(session, full)
    assert (await again(service, session)).events == [before]


async def test_a_retry_changes_nothing_and_another_event_of_its_id_is_refused(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u")
    once = keyed({"n": 1})
    await service.append_event(session, once)
    await service.append_event(session, keyed({"n": 2}))
    await service.append_event(session, once)
    assert [e.actions.state_delta for e in session.events] == [{"n": 1}, {"n": 2}] and session.state == {"n": 2}
    # This copy does not have the event yet, as after a lost answer.
    stored = await again(service, session, num_recent_events=0)
    await service.append_event(stored, once.model_copy(deep=True))
    assert stored.events == [once]
    with pytest.raises(AlreadyExistsError):
        await service.append_event(session, keyed({"n": 3}, id=once.id, timestamp=once.timestamp))
    whole = await again(service, session)
    assert len(whole.events) == 2 and whole.state == {"n": 2}


async def test_events_whose_id_repeats_are_kept_where_that_is_asked_for(uri: str, app: str) -> None:
    async with scratchbook.ScratchbookSessionService(uri, keep_repeated_ids=True) as service:
        session = await service.create_session(app_name=app, user_id="u")
        for n in range(4):
            await service.append_event(session, keyed({"n": n}, id="same"))
        stored = await again(service, session)
        assert [(e.id, e.actions.state_delta["n"]) for e in stored.events] == [("same", n) for n in range(4)]
        # A retry still counts as a retry.
        for repeated in (session.events[0], session.events[2], stored.events[2]):
            await service.append_event(stored, repeated)
        assert len((await again(service, session)).events) == len(stored.events) == 4


async def test_repeated_ids_are_the_writers_own_wherever_events_are_told_of(uri: str, app: str) -> None:
    async with scratchbook.ScratchbookSessionService(uri, keep_repeated_ids=True) as service:
        session = await service.create_session(app_name=app, user_id="u")
        for n in range(3):
            await service.append_event(session, keyed({"n": n}, id="same"))
        await service.append_event(session, keyed({"n": 3}, id="other"))
        await service.append_event(await again(service, session), keyed({"n": 4}, id="same"))
        await service.refresh(session)
        assert [event.actions.state_delta["n"] for event in session.events] == list(range(5))
        assert [(await service.state_at(session, event))["n"] for event in session.events] == list(range(5))
        with pytest.raises(ValueError, match="the events 1, 2, 3, 5 have the id 'same'"):
            await service.state_at(session, "same")
        assert await service.state_at(session, "other") == {"n": 3}
        with pytest.raises(scratchbook.NotFoundError):
            await service.state_at(session, "none")
        written = [write["eventId"] for write in await service.history(session, "n")]
        assert written == ["same", "other", "same", "same", "same"]
        assert (await service.blame(session))["n"]["eventId"] == "same"
        async with service.watch(session, start="beginning") as watch:
            assert [(await anext(watch))["event"]["id"] for _ in range(3)] == ["same"] * 3


async def test_the_sync_twins_do_the_same(service: Any, app: str) -> None:
    def work() -> None:
        made = service.create_session_sync(app_name=app, user_id="u", state={"a": 1}, session_id="s")
        service.append_event_sync(made, keyed({"a": 2}))
        found = service.get_session_sync(app_name=app, user_id="u", session_id="s")
        assert found.state == {"a": 2} and len(found.events) == 1
        assert [s.id for s in service.list_sessions_sync(app_name=app).sessions] == ["s"]
        service.delete_session_sync(app_name=app, user_id="u", session_id="s")
        assert service.get_session_sync(app_name=app, user_id="u", session_id="s") is None

    # Works within an event loop, which it blocks, and in a thread without an event loop.
    work()
    await asyncio.to_thread(work)


async def test_a_copy_of_a_deleted_session_is_stale_to_its_successor(uri: str, app: str) -> None:
    for conflict in ("strict", "by_key"):
        service = scratchbook.ScratchbookSessionService(uri, conflict=conflict)
        for _ in range(2):
            session = await service.create_session(app_name=app, user_id="u", session_id="s", state={"a": 1})
            await service.append_event(session, keyed({"b": 1}))
            old = await again(service, session)
            await service.delete_session(app_name=app, user_id="u", session_id="s")
            new = await service.create_session(app_name=app, user_id="u", session_id="s", state={"a": 100})
            await service.append_event(new, keyed({"b": 2}))
            for copied in (session, old, copy.deepcopy(old)):
                with pytest.raises(scratchbook.StaleSessionError):
                    await service.append_event(copied, keyed({"c": 2}))
            assert (await again(service, new)).state == {"a": 100, "b": 2}
            await service.delete_session(app_name=app, user_id="u", session_id="s")
        await service.close()


async def test_after_close_every_call_is_refused(uri: str, app: str) -> None:
    service = scratchbook.ScratchbookSessionService(uri)
    await service.create_session(app_name=app, user_id="u")
    await service.flush()
    await service.close()
    await service.close()
    with pytest.raises(scratchbook.FailedPreconditionError, match="make another"):
        await service.open()
    with pytest.raises(scratchbook.FailedPreconditionError, match="closed"):
        await service.list_sessions(app_name=app)
    never_opened = scratchbook.ScratchbookSessionService(uri)
    await never_opened.close()
    with pytest.raises(scratchbook.FailedPreconditionError, match="closed"):
        await never_opened.list_sessions(app_name=app)


async def test_what_a_copy_has_seen_makes_no_difference_between_sessions(service: Any, app: str) -> None:
    session = await service.create_session(app_name=app, user_id="u", state={"user:a": 1})
    await service.append_event(session, keyed({"a": 1}))
    stored = await again(service, session)
    assert stored == session == Session.model_validate_json(session.model_dump_json())
    assert copy.deepcopy(stored) == stored and stored.model_copy() == stored
    stored.state["a"] = 2
    assert stored != session
