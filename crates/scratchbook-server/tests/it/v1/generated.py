"""A program that uses a client which was generated from the server's document."""

import sys

from client import Client
from client.api.adk import adk_create_session, adk_get_session, adk_list_apps, adk_load_artifact, adk_run
from client.api.adk import adk_save_artifact, adk_update_session
from client.api.agent_engine import append_engine_event, get_engine_session, list_engine_events
from client.api.server import health
from client.api.sessions import get_session
from client.models import CreateSessionRequest, RunAgentRequest, SaveArtifactRequest, SessionEvent, UpdateSessionRequest

client = Client(base_url=sys.argv[1])
of = {"client": client}
here = ("shop", "alice", "s1")

assert health.sync(**of).status == "ok"
assert adk_list_apps.sync(**of) == ["shop"]

made = adk_create_session.sync(
    "shop", "alice", body=CreateSessionRequest.from_dict({"sessionId": "s1", "state": {"cart": {"milk": 2}}}), **of
)
assert (made.id, made.app_name, made.state.additional_properties) == ("s1", "shop", {"cart": {"milk": 2}})

run = RunAgentRequest.from_dict(
    {
        "appName": "shop",
        "userId": "alice",
        "sessionId": "s1",
        "newMessage": {"role": "user", "parts": [{"text": "Hi"}]},
    }
)
[said] = adk_run.sync(body=run, **of)
assert said.author == "assistant" and said.content.additional_properties["parts"] == [{"text": "Hello."}]

changed = adk_update_session.sync(*here, body=UpdateSessionRequest.from_dict({"stateDelta": {"step": 1}}), **of)
assert changed.state.additional_properties["step"] == 1
note = {"filename": "a/note.txt", "artifact": {"text": "two apples"}}
assert adk_save_artifact.sync(*here, body=SaveArtifactRequest.from_dict(note), **of).version == 0
assert adk_load_artifact.sync(*here, "a/note.txt", **of).text == "two apples"

engine = ("p", "l", "shop", "s1")
event = SessionEvent.from_dict(
    {"author": "user", "timestamp": "2026-11-20T17:10:23Z", "actions": {"stateDelta": {"by": "engine"}}}
)
append_engine_event.sync(*engine, body=event, **of)
assert get_engine_session.sync(*engine, **of).session_state.additional_properties["by"] == "engine"
assert list_engine_events.sync(*engine, **of).session_events[-1].author == "user"

ours = get_session.sync(*here, **of)
assert ours.event_count == 4 and ours.state.additional_properties["by"] == "engine"
theirs = adk_get_session.sync(*here, **of)
assert [event.id for event in theirs.events] == [event.id for event in ours.events]

missing = adk_get_session.sync("shop", "alice", "nope", **of)
assert missing.detail == "Session not found"
print("done")
