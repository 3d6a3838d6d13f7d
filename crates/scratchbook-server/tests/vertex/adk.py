"""google-adk over the endpoint: `adk.py URL` fails if its VertexAiSessionService does not get what it needs.

The service is google-adk's own, with another address by `services.py`. A Runner and an `adk api_server` use it.
"""

import asyncio
import datetime
import shutil
import sys
import tempfile
from pathlib import Path

from fastapi.testclient import TestClient
from google.adk.agents import LlmAgent
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools import ToolContext
from google.genai import errors, types
from services import ScratchbookSessionService

APP = "123"


def said(author, text, **more):
    role = "user" if author == "user" else "model"
    return Event(author=author, content=types.Content(role=role, parts=[types.Part(text=text)]), **more)


async def refused(kind, awaited):
    try:
        found = await awaited
    except kind as error:
        return error
    raise AssertionError(f"not refused: {found}")


async def sessions(service):
    state = {"cart": [], "user:theme": "light", "app:x": 7, "temp:y": 1}
    made = await service.create_session(app_name=APP, user_id="u1", state=state)
    assert made.id.isdigit() and made.state == {"cart": [], "user:theme": "light", "app:x": 7}, made
    where = {"app_name": APP, "user_id": "u1", "session_id": made.id}
    got = await service.get_session(**where)
    assert (got.id, got.state, got.events) == (made.id, made.state, []), got
    # Other sessions of the user have the state of the user and the app, and no other state.
    other = await service.create_session(app_name=APP, user_id="u1", session_id="my-session-1")
    assert (other.id, other.state) == ("my-session-1", {"user:theme": "light", "app:x": 7}), other
    stranger = await service.create_session(app_name=APP, user_id='u"2\\', ttl="7200s", display_name="Hi")
    assert stranger.state == {"app:x": 7}, stranger
    listed = await service.list_sessions(app_name=APP, user_id='u"2\\')
    assert [one.id for one in listed.sessions] == [stranger.id], listed
    listed = await service.list_sessions(app_name=APP)
    assert {one.id for one in listed.sessions} == {made.id, other.id, stranger.id}, listed

    taken = await refused(
        errors.ClientError, service.create_session(app_name=APP, user_id="u3", session_id="my-session-1")
    )
    assert (taken.code, taken.status) == (409, "ALREADY_EXISTS"), taken
    assert await service.get_session(app_name=APP, user_id="u1", session_id="nope") is None
    await refused(ValueError, service.get_session(app_name=APP, user_id="u2", session_id=made.id))
    await refused(ValueError, service.delete_session(app_name=APP, user_id="u2", session_id=made.id))
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    bad = await refused(errors.ClientError, service.create_session(app_name=APP, user_id="u1", expire_time=past))
    assert (bad.code, bad.status) == (400, "INVALID_ARGUMENT"), bad

    await service.create_session(app_name=APP, user_id="u1", session_id="brief", ttl="2s")
    await asyncio.sleep(2.1)
    assert await service.get_session(app_name=APP, user_id="u1", session_id="brief") is None
    assert "brief" not in {one.id for one in (await service.list_sessions(app_name=APP)).sessions}

    await service.delete_session(**where)
    assert await service.get_session(**where) is None
    await service.delete_session(**where)
    await service.delete_session(app_name=APP, user_id="u1", session_id="my-session-1")
    await service.delete_session(app_name=APP, user_id='u"2\\', session_id=stranger.id)


async def events(service):
    session = await service.create_session(app_name=APP, user_id="u1", session_id="events")
    begin = 1_795_194_622.9175386
    for n in range(250):
        actions = EventActions(state_delta={"n": n, "user:theme": "dark", "app:x": n, "temp:t": n})
        event = said("agent", f"m{n}", invocation_id="i-1", timestamp=begin + n, actions=actions, turn_complete=True)
        event.usage_metadata = types.GenerateContentResponseUsageMetadata(prompt_token_count=n)
        event.custom_metadata = {"k": "v"}
        await service.append_event(session, event)
    whole = await service.get_session(app_name=APP, user_id="u1", session_id="events")
    assert [event.id for event in whole.events] == [event.id for event in session.events]
    for got, kept in zip(whole.events, session.events, strict=True):
        # Only the time differs: it has the precision of the API.
        assert abs(got.timestamp - kept.timestamp) < 1e-6, (got, kept)
        got.timestamp = kept.timestamp
        assert got == kept, (got, kept)
    assert whole.state == {"n": 249, "user:theme": "dark", "app:x": 249}, whole.state
    assert abs(whole.last_update_time - (begin + 249)) < 1e-6, whole.last_update_time

    async def part(**config):
        config = GetSessionConfig(**config)
        got = await service.get_session(app_name=APP, user_id="u1", session_id="events", config=config)
        return [event.content.parts[0].text for event in got.events]

    assert await part(num_recent_events=3) == ["m247", "m248", "m249"]
    assert await part(num_recent_events=0) == []
    assert await part(after_timestamp=begin + 246.5) == ["m247", "m248", "m249"]
    assert await part(after_timestamp=begin + 100) == [f"m{n}" for n in range(100, 250)]
    assert await part(after_timestamp=begin + 1000) == []

    # A piece of a stream is accepted but not stored. An event that is sent twice is stored once.
    await service.append_event(session, said("agent", "piece", partial=True, actions=EventActions(state_delta={"n": -1})))
    again = session.events[-1]
    await service.append_event(session.model_copy(update={"events": []}), again)
    whole = await service.get_session(app_name=APP, user_id="u1", session_id="events")
    assert len(whole.events) == 250 and whole.state["n"] == 249, whole
    missing = session.model_copy(update={"id": "nope", "events": []})
    error = await refused(errors.ClientError, service.append_event(missing, said("user", "hello")))
    assert (error.code, error.status) == (404, "NOT_FOUND"), error

    compaction = {"start_timestamp": begin, "end_timestamp": begin + 1, "compacted_content": {"parts": [{"text": "…"}]}}
    data = types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="application/octet-stream"))
    rich = Event(
        author="agent",
        branch="a.b",
        long_running_tool_ids={"lr1"},
        error_code="E",
        error_message="went wrong",
        interrupted=True,
        grounding_metadata=types.GroundingMetadata(web_search_queries=["q"]),
        content=types.Content(
            role="model",
            parts=[types.Part(function_call=types.FunctionCall(id="c", name="f", args={"a": None, "b": 1.5})), data],
        ),
        actions=EventActions(
            compaction=compaction, transfer_to_agent="b", escalate=True, artifact_delta={"f": 1}, state_delta={"none": None}
        ),
    )
    await service.append_event(session, rich)
    got = await service.get_session(app_name=APP, user_id="u1", session_id="events")
    got.events[-1].timestamp = rich.timestamp
    assert got.events[-1] == rich and got.state["none"] is None, (got.events[-1], rich)


async def many(service):
    made = {f"s-{n}" for n in range(260)}
    for user in ("many", "others"):
        for name in made:
            await service.create_session(app_name="7", user_id=user, session_id=f"{user}-{name}")
    listed = await service.list_sessions(app_name="7", user_id="many")
    assert sorted(one.id for one in listed.sessions) == sorted(f"many-{name}" for name in made)
    assert len((await service.list_sessions(app_name="7")).sessions) == 520


class Scripted(BaseLlm):
    """Calls the tool once, and then speaks about its answer."""

    model: str = "scripted"

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1]
        answered = any(part.function_response for part in last.parts)
        part = types.Part(text="Added.") if answered else types.Part.from_function_call(name="add", args={"item": "tea"})
        if stream and answered:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Add")]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def add(item: str, tool_context: ToolContext) -> dict:
    state = tool_context.state
    state["cart"] = state.get("cart", []) + [item]
    state["user:orders"] = state.get("user:orders", 0) + 1
    state["app:orders"] = state.get("app:orders", 0) + 1
    state["temp:scratch"] = "gone"
    return {"cart": state["cart"], "seen": state.get("temp:scratch")}


async def runner(service):
    agent = LlmAgent(name="shop", model=Scripted(), tools=[add], output_key="said")
    runner = Runner(app_name="42", agent=agent, session_service=service)
    expected = {"alice": 2, "bob": 1}
    for user, session in [("alice", "a1"), ("alice", "a2"), ("bob", "b1")]:
        await service.create_session(app_name="42", user_id=user, session_id=session)
        message = types.Content(role="user", parts=[types.Part(text="tea, please")])
        events = [one async for one in runner.run_async(user_id=user, session_id=session, new_message=message)]
        assert events[-1].content.parts[0].text == "Added.", events
        answer = [call.response for event in events for call in event.get_function_responses()]
        assert answer == [{"cart": ["tea"], "seen": "gone"}], answer
    for user, session in [("alice", "a1"), ("alice", "a2"), ("bob", "b1")]:
        got = await service.get_session(app_name="42", user_id=user, session_id=session)
        # `user:` is shared by the sessions of a user, `app:` by all, and `temp:` is gone.
        assert got.state == {"cart": ["tea"], "said": "Added.", "user:orders": expected[user], "app:orders": 3}, got.state
        assert [event.author for event in got.events] == ["user", "shop", "shop", "shop"], got.events
        assert not any(key.startswith("temp:") for event in got.events for key in event.actions.state_delta), got.events


def server(url):
    """Checks `adk api_server --session_service_uri`, with `services.py` in the folder of the agents."""
    with tempfile.TemporaryDirectory() as agents:
        shutil.copy(Path(__file__).with_name("services.py"), agents)
        uri = f"scratchbook+{url}/shop"
        app = TestClient(get_fast_api_app(agents_dir=agents, session_service_uri=uri, web=False))
        sessions = "/apps/anything/users/u1/sessions"
        made = app.post(sessions, json={"sessionId": "s1", "state": {"a": 1, "user:b": 2, "temp:c": 3}})
        assert made.status_code == 200 and made.json()["state"] == {"a": 1, "user:b": 2}, made.text
        changed = app.patch(f"{sessions}/s1", json={"stateDelta": {"a": 2}})
        assert changed.status_code == 200 and changed.json()["state"]["a"] == 2, changed.text
        assert [one["id"] for one in app.get(sessions).json()] == ["s1"]
        assert app.delete(f"{sessions}/s1").status_code == 200
        assert app.get(f"{sessions}/s1").status_code == 404


async def main(url):
    for service in (ScratchbookSessionService(url), ScratchbookSessionService(url, "shop of number 5")):
        await sessions(service)
    await events(service)
    await many(ScratchbookSessionService(url))
    await runner(ScratchbookSessionService(url))


asyncio.run(main(sys.argv[1]))
server(sys.argv[1])
