"""google-adk beside another client: `pair.py URL` reads from its input what the other client has written, as JSON.

It reads alice's session `by-rust`, and fails if google-adk reads other events or state than the input has. Then it
writes the same events to a session `by-python`.
"""

import asyncio
import json
import sys

from google.adk.events.event import Event
from services import ScratchbookSessionService

WHERE = {"app_name": "shop", "user_id": "alice"}


async def main(url, told):
    service = ScratchbookSessionService(url, "shop")
    events = [Event.model_validate(event) for event in told["events"]]
    read = await service.get_session(**WHERE, session_id="by-rust")
    assert read.state == told["state"], read.state
    assert len(read.events) == len(events), read.events
    for got, wanted in zip(read.events, events):
        assert got == wanted, (got, wanted)
    assert read.last_update_time == events[-1].timestamp, read

    config = {"display_name": "From Python", "labels": {"env": "test"}}
    made = await service.create_session(**WHERE, session_id="by-python", state=told["begin"], **config)
    for event in events:
        await service.append_event(made, event.model_copy(deep=True))
    listed = await service.list_sessions(**WHERE)
    assert [one.id for one in listed.sessions] == ["by-python", "by-rust"], listed
    assert [one.state for one in listed.sessions] == [told["state"]] * 2, listed


asyncio.run(main(sys.argv[1], json.load(sys.stdin)))
