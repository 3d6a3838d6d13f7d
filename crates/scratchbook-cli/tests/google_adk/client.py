"""Calls a server with google-adk's own client: `client.py URL` fails if the client does not accept an answer.

The client reads sessions, events and versions of artifacts with ADK's models, which allow no other key in a session.
Requests for which it has no method are sent by plain HTTP, and the answers are read with the same models.
"""

import asyncio
import sys

import httpx
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.cli.adk_web_server import RunAgentRequest
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

APP, USER = "demo", "alice"


def said(text):
    return types.Content(role="user", parts=[types.Part(text=text)])


def texts(events):
    return "".join(part.text or "" for event in events for part in (event.content.parts if event.content else []) or [])


async def run(client, session, text, **more):
    request = RunAgentRequest(
        app_name=APP, user_id=USER, session_id=session.id, new_message=said(text), **more
    )
    return [event async for event in client.run_agent(request)]


async def sessions(client, http):
    created = await client.create_session(app_name=APP, user_id=USER, state={"cart": {}, "user:theme": "dark"})
    assert created.state == {"cart": {}, "user:theme": "dark"}, created
    assert (created.app_name, created.user_id, created.events) == (APP, USER, []), created
    where = {"app_name": APP, "user_id": USER, "session_id": created.id}

    updated = await client.update_session(**where, state_delta={"step": 1, "temp:x": 2, "none": None})
    assert updated.state["step"] == 1 and updated.state["none"] is None, updated
    assert "temp:x" not in updated.state, updated
    assert updated.events[-1].author == "user", updated
    got = await client.get_session(**where)
    assert got == updated, (got, updated)

    listed = [Session.model_validate(one) for one in (await http.get(f"/apps/{APP}/users/{USER}/sessions")).json()]
    assert [one.id for one in listed] == [created.id] and listed[0].events == [], listed

    # Everything that was exported comes back.
    body = {"session_id": "again", "events": [event.model_dump(mode="json", by_alias=True) for event in got.events]}
    again = await http.post(f"/apps/{APP}/users/{USER}/sessions", json=body)
    assert again.status_code == 200, again.text
    assert Session.model_validate(again.json()).events == got.events
    await client.delete_session(app_name=APP, user_id=USER, session_id="again")
    return created


async def runs(client, http, session):
    events = await run(client, session, "add two apples", state_delta={"asked": True})
    calls = [call.name for event in events for call in event.get_function_calls()]
    assert calls == ["add_to_cart"], events
    assert events[-1].is_final_response() and "2 x apples" in texts(events), events
    assert len({event.invocation_id for event in events}) == 1, events

    streamed = await run(client, session, "what can you do?", streaming=True)
    pieces, whole = [event for event in streamed if event.partial], streamed[-1]
    assert len(pieces) > 5 and not whole.partial, streamed
    assert texts(pieces) == texts([whole]), streamed

    request = {"app_name": APP, "user_id": USER, "session_id": session.id, "new_message": said("hello").model_dump()}
    whole = [Event.model_validate(event) for event in (await http.post("/run", json=request)).json()]
    assert texts(whole), whole

    got = await client.get_session(app_name=APP, user_id=USER, session_id=session.id)
    assert got.state["asked"] is True and got.state["cart"], got.state
    stored = {event.id for event in got.events}
    assert all(event.id in stored for event in events) and not any(event.partial for event in got.events), got


async def artifacts(client, http, session):
    events = await run(client, session, "save a note: buy milk")
    assert any(event.actions.artifact_delta == {"note.txt": 0} for event in events), events
    where = {"app_name": APP, "user_id": USER, "session_id": session.id, "artifact_name": "note.txt"}
    version = await client.get_artifact_version_metadata(**where, version=0)
    assert (version.version, version.mime_type) == (0, "text/plain"), version
    assert await client.list_artifact_versions_metadata(**where) == [version]

    below = f"/apps/{APP}/users/{USER}/sessions/{session.id}/artifacts"
    part = types.Part.from_bytes(data=bytes(range(256)), mime_type="application/x-all")
    body = {"filename": "user:all.bin", "artifact": part.model_dump(mode="json", by_alias=True, exclude_none=True)}
    saved = ArtifactVersion.model_validate((await http.post(below, json=body)).json())
    assert (saved.version, saved.mime_type) == (0, "application/x-all"), saved
    loaded = types.Part.model_validate((await http.get(f"{below}/user:all.bin/versions/0")).json())
    assert loaded == part, loaded
    assert (await http.get(below)).json() == ["note.txt", "user:all.bin"]


async def failures(client, http, session):
    for path in ["nope", f"{session.id}/artifacts/nope"]:
        answer = await http.get(f"/apps/{APP}/users/{USER}/sessions/{path}")
        assert answer.status_code == 404 and set(answer.json()) == {"detail"}, answer.text
    try:
        await client.get_session(app_name=APP, user_id="bob", session_id=session.id)
    except httpx.HTTPStatusError as error:
        assert error.response.status_code == 404, error
    else:
        raise AssertionError("another user's session was given away")


async def main(url):
    async with AdkWebServerClient(base_url=url) as client, httpx.AsyncClient(base_url=url, timeout=30) as http:
        version = await client.get_version_data()
        assert set(version) == {"version", "language", "language_version"}, version
        session = await sessions(client, http)
        await runs(client, http, session)
        await artifacts(client, http, session)
        await failures(client, http, session)
        await client.delete_session(app_name=APP, user_id=USER, session_id=session.id)
        assert (await http.get(f"/apps/{APP}/users/{USER}/sessions")).json() == []
    print("every answer was taken")


asyncio.run(main(sys.argv[1]))
