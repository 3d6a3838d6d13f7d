"""Plays cases with google-adk: each line of standard input is a case, each line printed is what came of it.

What a case is, is said in `mod.rs`. Printed are the stored events, one list a turn, whether the turn failed, and the state.
"""

import asyncio
import json
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig
from google.adk.artifacts import InMemoryArtifactService
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import AgentTool, BaseTool
from google.genai import types


class Scripted(BaseLlm):
    """Says what its script says, then that it is over."""

    model: str = "scripted"
    agent: str
    script: list
    pause: float = 0

    async def generate_content_async(self, llm_request, stream=False):
        if self.pause:
            await asyncio.sleep(self.pause / 1000)
        answer = self.script.pop(0) if self.script else {"text": f"{self.agent} is done"}
        if "fails" in answer:
            raise ValueError(answer["fails"])
        if "empty" in answer:
            yield LlmResponse(finish_reason="STOP" if answer["empty"] == "STOP" else None)
            return
        parts = []
        if "text" in answer:
            told = llm_request.config.system_instruction or ""
            own = "" if told.startswith("You are an agent.") else told.split("\n\nYou are an agent.")[0]
            parts.append(types.Part(text=answer["text"].replace("<instruction>", own)))
        for name, args in answer.get("calls", []):
            parts.append(types.Part(function_call=types.FunctionCall(name=name, args=args)))
        yield LlmResponse(content=types.Content(role="model", parts=parts), finish_reason="STOP")


async def act(deed, context):
    """What a tool or a callback does, and in place of what it answers."""
    if "wait" in deed:
        await asyncio.sleep(deed["wait"] / 1000)
    for key, value in deed.get("set", {}).items():
        context.state[key] = value
    for key, source in deed.get("copy", {}).items():
        context.state[key] = context.state.get(source, "none")
    if "artifact" in deed:
        metadata = {"note": deed["note"]} if "note" in deed else None
        await context.save_artifact(deed["artifact"], types.Part(text=deed["artifact"]), custom_metadata=metadata)
    if "look" in deed:
        part = await context.load_artifact(deed["look"], deed.get("version"))
        found = await context.get_artifact_version(deed["look"], deed.get("version"))
        return {
            "text": part and part.text,
            "version": found and found.version,
            "metadata": found and found.custom_metadata,
        }
    if deed.get("escalate"):
        context.actions.escalate = True
    if "transfer" in deed:
        context.actions.transfer_to_agent = deed["transfer"]
    if deed.get("skip"):
        context.actions.skip_summarization = True
    if deed.get("ask"):
        context.request_confirmation(hint="sure?")
    if "fails" in deed:
        raise ValueError(deed["fails"])
    return deed.get("give")


class Act(BaseTool):
    """Does what its arguments say."""

    def _get_declaration(self):
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args, tool_context):
        given = await act(args, tool_context)
        if self.is_long_running:
            return given
        return given if given is not None else {"done": True}


def around_agent(deed):
    async def callback(callback_context):
        said = await act(deed, callback_context)
        return said and types.Content(role="model", parts=[types.Part(text=said)])

    return callback


def before_model(deed):
    async def callback(callback_context, llm_request):
        said = await act(deed, callback_context)
        return said and LlmResponse(content=types.Content(role="model", parts=[types.Part(text=said)]))

    return callback


def after_model(deed):
    async def callback(callback_context, llm_response):
        said = await act(deed, callback_context)
        if not said:
            return None
        return llm_response.model_copy(update={"content": types.Content(role="model", parts=[types.Part(text=said)])})

    return callback


def before_tool(deed):
    async def callback(tool, args, tool_context):
        return await act(deed, tool_context)

    return callback


def after_tool(deed):
    async def callback(tool, args, tool_context, tool_response):
        return await act(deed, tool_context)

    return callback


def on_model_error(deed):
    async def callback(callback_context, llm_request, error):
        said = await act(deed, callback_context)
        return said and LlmResponse(content=types.Content(role="model", parts=[types.Part(text=said)]))

    return callback


def on_tool_error(deed):
    async def callback(tool, args, tool_context, error):
        return await act(deed, tool_context)

    return callback


AROUND = {
    "before_agent": around_agent,
    "after_agent": around_agent,
    "before_model": before_model,
    "after_model": after_model,
    "before_tool": before_tool,
    "after_tool": after_tool,
    "on_model_error": on_model_error,
    "on_tool_error": on_tool_error,
}


def text_of(content):
    return content.parts[0].text if content and content.parts else None


class Played(BasePlugin):
    """Does what its deeds say, and notes each call in a list that all plugins share."""

    def __init__(self, spec, notes):
        super().__init__(spec["name"])
        self.deeds = {kind: deeds[0] for kind, deeds in spec["callbacks"].items()}
        self.notes = notes

    async def do(self, kind, who, context, *args, **kwargs):
        if kind not in self.deeds:
            return None
        self.notes.append(f"{self.name} {kind} {who}")
        return await AROUND[kind](self.deeds[kind])(context, *args, **kwargs)

    def of_run(self, kind, who, said):
        """What a callback around a whole run gives, which is for one message only."""
        deed = self.deeds.get(kind)
        if deed is None:
            return None
        self.notes.append(f"{self.name} {kind} {who}")
        given = deed.get("give") if deed.get("if", said) == said else None
        return given and types.Content(role="user" if kind == "on_user_message" else "model", parts=[types.Part(text=given)])

    async def on_user_message_callback(self, *, invocation_context, user_message):
        return self.of_run("on_user_message", invocation_context.app_name, text_of(user_message))

    async def before_run_callback(self, *, invocation_context):
        return self.of_run("before_run", invocation_context.app_name, text_of(invocation_context.user_content))

    async def after_run_callback(self, *, invocation_context):
        self.of_run("after_run", invocation_context.app_name, None)

    async def on_event_callback(self, *, invocation_context, event):
        deed = self.deeds.get("on_event")
        if deed is None:
            return None
        self.notes.append(f"{self.name} on_event {event.author}")
        event.actions.state_delta.update(deed.get("set", {}))
        if "mark" in deed:
            return event.model_copy(update={"custom_metadata": {"mark": deed["mark"]}})
        return None

    async def before_agent_callback(self, *, agent, callback_context):
        return await self.do("before_agent", agent.name, callback_context)

    async def after_agent_callback(self, *, agent, callback_context):
        return await self.do("after_agent", agent.name, callback_context)

    async def before_model_callback(self, *, callback_context, llm_request):
        return await self.do("before_model", callback_context.agent_name, callback_context, llm_request)

    async def after_model_callback(self, *, callback_context, llm_response):
        return await self.do("after_model", callback_context.agent_name, callback_context, llm_response)

    async def on_model_error_callback(self, *, callback_context, llm_request, error):
        return await self.do("on_model_error", callback_context.agent_name, callback_context, llm_request, error)

    async def before_tool_callback(self, *, tool, tool_args, tool_context):
        return await self.do("before_tool", tool.name, tool, tool_args, tool_context)

    async def after_tool_callback(self, *, tool, tool_args, tool_context, result):
        return await self.do("after_tool", tool.name, tool, tool_args, tool_context, result)

    async def on_tool_error_callback(self, *, tool, tool_args, tool_context, error):
        return await self.do("on_tool_error", tool.name, tool, tool_args, tool_context, error)


def build(spec):
    about = {"name": spec["name"], "sub_agents": [build(one) for one in spec.get("sub_agents", [])]}
    for kind, deeds in spec.get("callbacks", {}).items():
        about[f"{kind}_callback"] = [AROUND[kind](deed) for deed in deeds]
    match spec["kind"]:
        case "sequential":
            return SequentialAgent(**about)
        case "parallel":
            return ParallelAgent(**about)
        case "loop":
            return LoopAgent(**about, max_iterations=spec["max_iterations"])
    for field in ["instruction", "output_key"]:
        if field in spec:
            about[field] = spec[field]
    model = Scripted(agent=spec["name"], script=list(spec["script"]), pause=spec.get("pause", 0))
    tools = [Act(name="act", description="Acts."), Act(name="later", description="Acts later.", is_long_running=True)]
    for one in spec.get("agent_tools", []):
        tools.append(AgentTool(
            agent=build(one["agent"]),
            skip_summarization=one.get("skip", False),
            include_plugins=one.get("plugins", True),
        ))
    return LlmAgent(**about, model=model, tools=tools if spec.get("tools", True) else [])


def answered(turn, events):
    """The message that answers the last open call of `later`, or says something if no call is open."""
    calls = [call for event in events for call in event.get_function_calls() if call.name == "later"]
    given = {answer.id for event in events for answer in event.get_function_responses()}
    calls = [call for call in calls if call.id not in given]
    if not calls:
        return types.Part(text="nothing to answer")
    answer = types.FunctionResponse(id=calls[-1].id, name="later", response=turn["answer"])
    return types.Part(function_response=answer)


async def play(case):
    """What comes of a case: stored events by turn, whether the turn failed, and the state."""
    sessions = InMemorySessionService()
    where = {"user_id": "u", "session_id": "s"}
    await sessions.create_session(app_name="app", **where, state=case.get("state"))
    try:
        agent = build(case["agent"])
    except ValueError as error:
        return {"refused": str(error)}
    notes = []
    runner = Runner(
        app_name="app", agent=agent, session_service=sessions, artifact_service=InMemoryArtifactService(),
        plugins=[Played(spec, notes) for spec in case.get("plugins", [])],
    )
    turns = []
    config = RunConfig(**case.get("config", {}))
    stored = []
    for turn in case["turns"]:
        part = types.Part(text=turn["say"]) if "say" in turn else answered(turn, stored)
        message = types.Content(role="user", parts=[part])
        fails = False
        try:
            async for _ in runner.run_async(**where, new_message=message, run_config=config):
                pass
        except Exception:
            fails = True
        session = await sessions.get_session(app_name="app", **where)
        new = session.events[len(stored):]
        stored = session.events
        turns.append({
            "events": [event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in new],
            "fails": fails,
        })
    return {"turns": turns, "state": session.state, "notes": notes}


async def main():
    for line in sys.stdin:
        print(json.dumps(await play(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
