"""Plays scenarios with google-adk: `ask.py SCENARIOS URL` builds each one's agents and says what its turns say.

Its models ask the server at URL, which records their requests: those of a scenario below `/theirs/NAME`, those that are
streamed below `/theirs-streamed/NAME`.
"""

import asyncio
import json
import logging
import os
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
os.environ["GOOGLE_API_KEY"] = "not a key"

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.google_llm import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools import (
    AgentTool,
    exit_loop,
    get_user_choice,
    google_search,
    load_artifacts,
    transfer_to_agent,
)
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel, Field


def roll_die(sides: int) -> dict:
    """Rolls a die.

    Args:
      sides: How many sides it has.
    """
    return {"rolled": 4}


def look_up(city: str, country: str = "CH") -> str:
    """Looks a city up."""
    return f"{city} is in {country}."


def remember(key: str, value: str, tool_context: ToolContext) -> dict:
    """Keeps a value."""
    tool_context.state[key] = value
    return {"kept": True}


def fail() -> dict:
    """Fails."""
    raise ValueError("the die fell off the table")


def ask_boss(question: str) -> None:
    """Asks the boss."""


def open_ticket(title: str) -> dict:
    """Opens a ticket."""
    return {"status": "pending", "ticket": 7}


TOOLS = {
    "roll_die": roll_die,
    "look_up": look_up,
    "remember": remember,
    "fail": fail,
    "ask_boss": LongRunningFunctionTool(ask_boss),
    "open_ticket": LongRunningFunctionTool(open_ticket),
    "exit_loop": exit_loop,
    "get_user_choice": get_user_choice,
    "google_search": google_search,
    "load_artifacts": load_artifacts,
    "transfer_to_agent": transfer_to_agent,
}


class Person(BaseModel):
    name: str


class City(BaseModel):
    """A city."""

    name: str = Field(description="What it is called.")
    people: int
    mayor: Person | None = None
    districts: list[str] = []


SCHEMAS = {"City": City, "Cities": list[City]}


def content(value):
    """What has data in it is read as JSON: elsewhere base64 is not."""
    return types.Content.model_validate_json(json.dumps(value))


def told(tool, args, tool_context, error):
    return {"error": str(error)}


def build(spec, url):
    kind = spec.get("kind", "llm")
    below = [build(one, url) for one in spec.get("sub_agents", [])]
    about = {"name": spec["name"], "description": spec.get("description", ""), "sub_agents": below}
    if kind == "sequential":
        return SequentialAgent(**about)
    if kind == "parallel":
        return ParallelAgent(**about)
    if kind == "loop":
        return LoopAgent(**about, max_iterations=spec["max_iterations"])
    for field in ["instruction", "global_instruction", "include_contents", "output_key", "disallow_transfer_to_parent",
                  "disallow_transfer_to_peers"]:
        if field in spec:
            about[field] = spec[field]
    if "static_instruction" in spec:
        fixed = spec["static_instruction"]
        about["static_instruction"] = fixed if isinstance(fixed, str) else content(fixed)
    if "generate_content_config" in spec:
        about["generate_content_config"] = types.GenerateContentConfig.model_validate(spec["generate_content_config"])
    if "output_schema" in spec:
        schema = spec["output_schema"]
        about["output_schema"] = SCHEMAS[schema] if isinstance(schema, str) else schema
    if "input_schema" in spec:
        about["input_schema"] = SCHEMAS[spec["input_schema"]]
    tools = [TOOLS[name] for name in spec.get("tools", [])]
    tools += [AgentTool(agent=build(one, url)) for one in spec.get("agent_tools", [])]
    if spec.get("model", True):
        about["model"] = Gemini(model="gemini-2.5-flash", base_url=url)
    return LlmAgent(**about, tools=tools, on_tool_error_callback=told)


async def play(scenario, url, streaming_mode):
    runner = InMemoryRunner(agent=build(scenario["agent"], url), app_name="app")
    sessions = runner.session_service
    session = await sessions.create_session(app_name="app", user_id="u", state=scenario.get("state"))
    where = {"user_id": "u", "session_id": session.id}
    for name, part in scenario.get("artifacts", {}).items():
        artifact = types.Part.model_validate_json(json.dumps(part))
        await runner.artifact_service.save_artifact(app_name="app", **where, filename=name, artifact=artifact)
    runs = []
    for turn in scenario["turns"]:
        if "rewind_before" in turn:
            await runner.rewind_async(**where, rewind_before_invocation_id=runs[turn["rewind_before"]])
            continue
        if "answer" in turn:
            stored = await sessions.get_session(app_name="app", **where)
            calls = [call for event in stored.events for call in event.get_function_calls()]
            call = [call for call in calls if call.name == turn["answer"]][-1]
            answer = types.FunctionResponse(id=call.id, name=call.name, response=turn["response"])
            message = types.Content(role="user", parts=[types.Part(function_response=answer)])
        else:
            said = turn["say"]
            said = {"parts": [{"text": said}]} if isinstance(said, str) else said
            message = content({"role": "user", **said})
        try:
            config = RunConfig(streaming_mode=streaming_mode)
            async for event in runner.run_async(**where, new_message=message, run_config=config):
                pass
        except Exception as error:
            if not turn.get("fails"):
                raise RuntimeError(f"{scenario['name']}: {turn}") from error
        else:
            assert not turn.get("fails"), f"{scenario['name']}: {turn} does not fail"
        stored = await sessions.get_session(app_name="app", **where)
        runs.append(next(event for event in reversed(stored.events) if event.author == "user").invocation_id)


async def main(path, url):
    with open(path, encoding="utf-8") as file:
        scenarios = json.load(file)
    for scenario in scenarios:
        for mode, side in [(StreamingMode.NONE, "theirs"), (StreamingMode.SSE, "theirs-streamed")]:
            await play(scenario, f"{url}/{side}/{scenario['name']}", mode)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
