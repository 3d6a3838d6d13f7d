"""Records what google-adk sends to a model and stores where it sums up events.

Run beside this file with an interpreter that has google-adk 2.13.0; it writes one JSON file for each case.
"""

import asyncio
import json
import pathlib
import warnings

from google.adk.agents import LlmAgent
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

warnings.simplefilter("ignore")

CALL = {"functionCall": {"name": "look_up", "args": {"item": "book"}}}

CASES = {
    "sliding_window": {
        "config": {"compaction_interval": 2, "overlap_size": 1},
        "turns": ["I am Ada.", "Is there a book?", "Thanks.", "And a lamp?", "Bye."],
        "answers": [
            {"text": "Hello Ada."},
            CALL,
            {"text": "There is one."},
            {"text": "Ada asked for a book."},
            {"text": "You are welcome."},
            {"text": "No lamp."},
            {"text": "A book, no lamp."},
            {"text": "Bye Ada."},
        ],
    },
    "token_threshold": {
        "config": {"token_threshold": 100, "event_retention_size": 2},
        "turns": ["I am Ada.", "Is there a book?", "Thanks.", "And a lamp?", "Bye."],
        "answers": [
            {"text": "Hello Ada.", "promptTokenCount": 10},
            CALL | {"promptTokenCount": 60},
            {"text": "There is one.", "promptTokenCount": 120},
            {"text": "Ada asked for a book.", "promptTokenCount": 70},
            {"text": "You are welcome.", "promptTokenCount": 30},
            {"text": "No lamp.", "promptTokenCount": 100},
            {"text": "A book, no lamp.", "promptTokenCount": 90},
            {"text": "Bye Ada.", "promptTokenCount": 40},
        ],
    },
    "within_a_run": {
        "config": {"token_threshold": 100, "event_retention_size": 1},
        "turns": ["I am Ada.", "Is there a book?", "Bye."],
        "answers": [
            {"text": "Hello Ada.", "promptTokenCount": 10},
            CALL | {"promptTokenCount": 150},
            {"text": "Ada said hello.", "promptTokenCount": 70},
            CALL | {"promptTokenCount": 160},
            {"text": "Ada asks for a book.", "promptTokenCount": 70},
            {"text": "There is one.", "promptTokenCount": 50},
            {"text": "Bye Ada.", "promptTokenCount": 60},
        ],
    },
    "estimated": {
        "config": {"token_threshold": 12, "event_retention_size": 1},
        "turns": ["I am Ada.", "Is there a book?", "Bye."],
        "answers": [
            {"text": "Hello Ada."},
            CALL,
            {"text": "Ada said hello."},
            {"text": "There is one."},
            {"text": "Ada asked for a book."},
            {"text": "Bye Ada."},
            {"text": "Ada left."},
        ],
    },
}


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


class Scripted(BaseLlm):
    answers: list = []
    requests: list = []

    async def generate_content_async(self, llm_request, stream=False):
        self.requests.append([plain(content) for content in llm_request.contents])
        answer = dict(self.answers.pop(0))
        count = answer.pop("promptTokenCount", None)
        usage = count and types.GenerateContentResponseUsageMetadata(prompt_token_count=count)
        content = types.Content(role="model", parts=[types.Part.model_validate(answer)])
        yield LlmResponse(content=content, usage_metadata=usage)


def look_up(item: str) -> dict:
    return {"found": True}


async def record(case):
    model = Scripted(model="scripted", answers=list(case["answers"]), requests=[])
    agent = LlmAgent(name="assistant", model=model, instruction="Be brief.", tools=[look_up])
    app = App(name="app", root_agent=agent, events_compaction_config=EventsCompactionConfig(**case["config"]))
    sessions = InMemorySessionService()
    runner = Runner(app=app, session_service=sessions)
    await sessions.create_session(app_name="app", user_id="user", session_id="s")
    yielded = 0
    for turn in case["turns"]:
        message = types.Content(role="user", parts=[types.Part(text=turn)])
        async for _ in runner.run_async(user_id="user", session_id="s", new_message=message):
            yielded += 1
    session = await sessions.get_session(app_name="app", user_id="user", session_id="s")
    times = [event.timestamp for event in session.events]
    events = []
    for event in session.events:
        stored = {"author": event.author}
        if event.content:
            stored["content"] = plain(event.content)
        if event.actions.compaction:
            compaction = plain(event.actions.compaction)
            compaction["from"] = times.index(compaction.pop("startTimestamp"))
            compaction["to"] = times.index(compaction.pop("endTimestamp"))
            stored["compaction"] = compaction
        events.append(stored)
    return {"requests": model.requests, "events": events, "yielded": yielded, "unsaid": len(model.answers)}


for name, case in CASES.items():
    recorded = case | asyncio.run(record(case))
    for stored in recorded["events"]:
        for part in stored.get("content", {}).get("parts", []):
            for kind in ("functionCall", "functionResponse"):
                part.get(kind, {}).pop("id", None)
    text = json.dumps(recorded, indent=1, ensure_ascii=False)
    pathlib.Path(__file__).with_name(f"{name}.json").write_text(text + "\n")
