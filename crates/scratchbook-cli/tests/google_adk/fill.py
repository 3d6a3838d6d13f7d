"""Fills a database with google-adk's own services, and prints what they report about it.

    fill.py sqlite PATH          its SqliteSessionService
    fill.py database URL         its DatabaseSessionService, schema version 1
    fill.py pickles PATH         its DatabaseSessionService on the tables of schema version 0
    fill.py odd PATH             rows that scratchbook refuses, written by its SqliteSessionService
    fill.py more KIND PLACE      more events in a database that was filled before
    fill.py long KIND PLACE      a session with more than a thousand events
    fill.py report KIND PLACE    nothing; only what is there

What is printed is JSON: {"sessions": [...], "userStates": [...], "apps": [...]}, each session and event as google-adk
writes it for the web.
"""

import asyncio
import json
import math
import sys

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.events.ui_widget import UiWidget
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

START = 1_700_000_000.0


def service(kind, place):
    if kind in ("sqlite", "odd"):
        return SqliteSessionService(place)
    return DatabaseSessionService(place if "://" in place else f"sqlite+aiosqlite:///{place}")


class Clock:
    """Times that differ by odd fractions, so that any rounding is noticed."""

    def __init__(self):
        self.now = START

    def __call__(self):
        self.now += 0.123456789
        return self.now


class Filler:
    def __init__(self, service):
        self.service = service
        self.clock = Clock()
        self.count = 0

    async def create(self, app, user, session, state=None):
        return await self.service.create_session(app_name=app, user_id=user, session_id=session, state=state)

    async def say(self, session, author="agent", text=None, delta=None, at=None, **fields):
        self.count += 1
        # Ids that do not rise, in both cases: DatabaseSessionService orders events of one time by them.
        fields.setdefault("id", f"{'aB'[self.count % 2]}-{99_999 - self.count}")
        fields.setdefault("invocation_id", f"e-{self.count // 3}")
        actions = fields.pop("actions", EventActions())
        actions.state_delta = delta or {}
        content = fields.pop("content", None)
        if text is not None:
            role = "user" if author == "user" else "model"
            content = types.Content(role=role, parts=[types.Part(text=text)])
        event = Event(author=author, content=content, actions=actions, timestamp=at or self.clock(), **fields)
        return await self.service.append_event(session, event)


async def fill(service):
    f = Filler(service)
    # State in all scopes, given at creation and changed later.
    s = await f.create("shop", "alice", "first", {
        "step": 1, "kept": {"a": [1, 2.5, None]}, "user:language": "en", "app:tax": 0.08, "temp:gone": 1,
        "overwritten": "at creation", "null": None, "": "an empty name", "weird:q": "a session key",
        "user:user:x": "one prefix is stripped", "app:": "no name",
    })
    await f.say(s, "user", "Hello, Zoë 🛒", {"step": 2, "temp:raw": "never stored"})
    await f.say(s, "agent", "Bonjour", {
        "overwritten": "by an event", "user:language": "fr", "big": 2**63 - 1, "small": -(2**63), "unsigned": 2**64 - 1,
        "third": 0.1 + 0.2, "tiny": 5e-324, "large": 123456789.98765433, "text": "a\u2028b\tc\"d\\e",
        "deep": {"a": {"b": {"c": [[], {}, [None]]}}},
    })
    await f.say(s, "agent", "Forget it", {"kept": None, "app:tax": 0.09})

    # What agents leave in events: calls, answers, data, branches, transfers, artifacts, errors.
    s = await f.create("shop", "alice", "second")
    call = types.FunctionCall(id="call-1", name="charge", args={"amount": 12.5, "currency": "€", "items": []})
    slow = types.FunctionCall(id="call-2", name="ask_a_human", args={})
    await f.say(s, "user", "Charge me")
    await f.say(s, content=types.Content(role="model", parts=[
        types.Part(text="Let me think", thought=True, thought_signature=b"\x00\xff\xfe"),
        types.Part(function_call=call), types.Part(function_call=slow)]),
        long_running_tool_ids={"call-2", "call-1"}, branch="outer.inner", model_version="gemini-x",
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=3, total_token_count=9),
        finish_reason=types.FinishReason.STOP)
    await f.say(s, content=types.Content(role="user", parts=[
        types.Part(function_response=types.FunctionResponse(id="call-1", name="charge", response={"ok": True}))]),
        actions=EventActions(skip_summarization=True, artifact_delta={"bill.pdf": 0, "user:card": 3},
            transfer_to_agent="billing", requested_tool_confirmations={}), delta={"charged": True})
    await f.say(s, content=types.Content(role="model", parts=[
        types.Part(inline_data=types.Blob(mime_type="image/png", data=bytes(range(256)))),
        types.Part(file_data=types.FileData(file_uri="gs://bucket/file", mime_type="text/plain")),
        types.Part(executable_code=types.ExecutableCode(code="print(1)", language=types.Language.PYTHON)),
        types.Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1"))]))
    await f.say(s, error_code="500", error_message="the model is away", custom_metadata={"try": 2, "why": [None]},
        actions=EventActions(escalate=True), turn_complete=True, interrupted=False, avg_logprobs=-0.25)
    await f.say(s, content=types.Content(role="model", parts=[
        types.Part(text="a clip", video_metadata=types.VideoMetadata(start_offset="1s", fps=24.0),
            part_metadata={"my_key": {"a_b": 1}}),
        types.Part(function_call=types.FunctionCall(id="call-3", name="slow", will_continue=True, partial_args=[
            types.PartialArg(json_path="$.a_b", string_value="x", will_continue=True)])),
        types.Part(function_response=types.FunctionResponse(name="slow", response={"my_key": 1}, parts=[
            types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=b"\xfb\xff"))])),
        ]), grounding_metadata=types.GroundingMetadata(web_search_queries=["a_b"], grounding_chunks=[
            types.GroundingChunk(web=types.GroundingChunkWeb(uri="https://example.com", title="t"))]),
        citation_metadata=types.CitationMetadata(citations=[types.Citation(start_index=1, end_index=2)]),
        logprobs_result=types.LogprobsResult(chosen_candidates=[
            types.LogprobsResultCandidate(token="a", token_id=3, log_probability=-0.1)]),
        input_transcription=types.Transcription(text="spoken", finished=True),
        actions=EventActions(render_ui_widgets=[
            UiWidget(id="w-1", provider="mcp", payload={"resource_uri": "ui://x", "my_key": {"a_b": 1}})]))
    await f.say(s, actions=EventActions(end_of_agent=True, agent_state={"at": "node-1", "n": 1.0}, route="left"))
    await f.say(s, actions=EventActions(compaction=EventCompaction(
        start_timestamp=START, end_timestamp=START + 0.1,
        compacted_content=types.Content(role="model", parts=[types.Part(text="a summary")]))))
    await f.say(s, actions=EventActions(rewind_before_invocation_id="e-1"), delta={"charged": None})
    await f.say(s, "agent", "a piece of a stream", {"never": "stored"}, partial=True)

    # Several events of one time, and a clock that goes back; each writes the same key.
    s = await f.create("shop", "bob", "clocks", {"n": 0})
    for n in range(1, 7):
        await f.say(s, "agent", f"tick {n}", {"n": n, f"only-{n}": n}, at=START + 5.5)
    back = await f.create("shop", "bob", "backwards")
    for n, at in [(1, START + 9), (2, START + 3), (3, START + 6)]:
        await f.say(back, "agent", f"at {at}", {"n": n, "user:n": n}, at=at)

    # Names that other programs stumble over; sessions of one id under several users and apps; nothing in one.
    for app, user, session in [
        ("Shöp", "o'brien\"; DROP TABLE sessions; --", "s/1?x=%20&y"), ("shop", "ünï 🛒", "first"),
        ("shop2", "alice", "first"), ("SHOP", "Alice", "FIRST"), ("shop", "alice", "empty"),
    ]:
        s = await f.create(app, user, session, {"user:seen": session, "app:last": user})
        if session != "empty":
            await f.say(s, "user", f"I am {user}", {f"{user}": app, "user:seen": f"again {session}"})

    # A user whose session is gone, and whose state stays.
    s = await f.create("shop", "carol", "deleted", {"user:theme": "dark", "app:visits": 1})
    await f.say(s, "user", "bye", {"app:visits": 2, "user:float": 1.0})
    await service.delete_session(app_name="shop", user_id="carol", session_id="deleted")


async def long(service):
    """A session with more events than are read and written at a time."""
    f = Filler(service)
    s = await f.create("long", "dave", "talk", {"n": -1, "kept": 1})
    for n in range(1_100):
        await f.say(s, "agent" if n % 2 else "user", f"line {n}", {"n": n, f"k{n % 5}": n})


async def more(service):
    f = Filler(service)
    f.count, f.clock.now = 50_000, START + 1_000
    for app, user, session in [("shop", "alice", "first"), ("shop", "bob", "clocks")]:
        s = await service.get_session(app_name=app, user_id=user, session_id=session)
        await f.say(s, "user", "I am back", {"back": True, "user:back": session, "n": 1000})
    await f.create("shop", "erin", "new", {"user:new": True})


async def odd(service):
    f = Filler(service)
    good = await f.create("odd", "alice", "good", {"a": 1})
    await f.say(good, "user", "fine", {"b": 2, "user:c": 3})
    s = await f.create("odd", "alice", "big numbers", {"fine": 1, "big": 2**70})
    await f.say(s, "user", "fine", {"x": 1}, id="fine")
    await f.say(s, "user", "too big", {"huge": 10**30, "y": 1}, id="too-big")
    await f.say(s, "user", "fine again", {"x": 2, "user:fine": 1, "user:big": -(2**64)}, id="also-too-big")
    await f.say(s, "user", "the last", {"x": 3}, id="last")
    await f.create("odd", "alice", "not a number", {"fine": 1, "nan": float("nan"), "inf": [float("inf")]})
    s = await f.create("odd", "alice", "removal", {"fine": 1, "gone": "__ADK_SENTINEL_REMOVED__"})
    await f.say(s, "user", "milliseconds", {"x": 1}, id="millis", at=START * 1000)
    await f.say(s, "user", "control", {"z": 1}, id="a\nb", at=START * 1000 + 1)
    await f.create("odd", "alice\n", "bad user", {"user:a": 1})
    await f.create("odd", "bob", "control \x01", {"user:a": 1})
    await f.create("odd\x02", "bob", "bad app")
    await f.create("odd", "bob", "long key", {"k" * 1025: 1, "nul\x00": 1, "fine": 1})
    await service.create_session(app_name="odd", user_id="u" * 513, session_id="long user")


async def pickles(place):
    """Creates tables of schema version 0, which DatabaseSessionService continues to use if they exist."""
    from google.adk.sessions.schemas import v0
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{place}")
    v0.Base.metadata.create_all(engine)
    engine.dispose()
    f = Filler(service("database", place))
    s = await f.create("shop", "alice", "old", {"a": 1, "user:b": 2})
    await f.say(s, "user", "hello", {"c": 3})
    return f.service


def finite(value):
    """The same without NaN and infinities, which JSON has no form for."""
    if isinstance(value, dict):
        return {key: finite(value) for key, value in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def report(service, place):
    apps, users = await names(place)
    sessions = []
    for app in apps:
        listed = await service.list_sessions(app_name=app)
        for listed in listed.sessions:
            session = await service.get_session(app_name=app, user_id=listed.user_id, session_id=listed.id)
            dumped = plain(session)
            # Dumping a model leaves out what is null, but not inside state.
            dumped["state"] = session.state
            dumped["events"] = [dict(plain(event)) for event in session.events]
            for event, shown in zip(session.events, dumped["events"]):
                shown["actions"]["stateDelta"] = event.actions.state_delta
            sessions.append(dumped)
    states = []
    for app, user in users:
        state = await service.get_user_state(app_name=app, user_id=user)
        states.append({"appName": app, "userId": user, "state": state})
    return {"apps": apps, "userStates": states, "sessions": sessions}


async def names(place):
    """The apps, and the users who have state: google-adk lists neither."""
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(place if "://" in place else f"sqlite+aiosqlite:///{place}")
    async with engine.connect() as connection:
        apps = await connection.execute(text("SELECT app_name FROM sessions UNION SELECT app_name FROM app_states"))
        users = await connection.execute(text("SELECT app_name, user_id FROM user_states"))
        found = sorted(row[0] for row in apps), sorted(tuple(row) for row in users)
    await engine.dispose()
    return found


async def main(what, *place):
    if what == "pickles":
        used = await pickles(*place)
        kind, place = "database", place[0]
    else:
        kind, place = (what, place[0]) if what in ("sqlite", "database", "odd") else place
        used = service(kind, place)
        filled = {"more": more, "long": long, "odd": odd, "report": None}.get(what, fill)
        if filled:
            await filled(used)
    print(json.dumps(finite(await report(used, place))))
    await used.close()


asyncio.run(main(*sys.argv[1:]))
