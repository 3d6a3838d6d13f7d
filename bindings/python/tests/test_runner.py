"""google-adk's Runner on these sessions: agents, tools, templates, rewind and resumption."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Scripted(BaseLlm):
    """A model that says what it was told to, one answer a call, and keeps what it was asked."""

    model: str = "scripted"
    answers: list[list[types.Part]]
    requests: list[LlmRequest] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request.model_copy(deep=True))
        yield LlmResponse(content=types.Content(role="model", parts=self.answers.pop(0)))


def model(*answers: str | tuple[str, dict[str, Any]]) -> Scripted:
    """Answers in words, or calls of tools."""
    parts = [
        [types.Part(text=answer)]
        if isinstance(answer, str)
        else [types.Part(function_call=types.FunctionCall(name=answer[0], args=answer[1]))]
        for answer in answers
    ]
    return Scripted(answers=parts)


async def say(runner: Runner, session_id: str, text: str | types.Part, **more: Any) -> list[Event]:
    part = types.Part(text=text) if isinstance(text, str) else text
    message = types.Content(role="user", parts=[part])
    return [event async for event in runner.run_async(user_id="u", session_id=session_id, new_message=message, **more)]


def texts(events: list[Event]) -> list[str]:
    return [part.text for event in events for part in (event.content.parts or [] if event.content else []) if part.text]


@pytest.fixture
def name() -> str:
    """An app's name that google-adk takes, of this test's own."""
    import secrets

    return f"app_{secrets.token_hex(6)}"


async def test_a_run_with_a_tool_a_template_and_an_output_key(service: Any, name: str) -> None:
    def add(item: str, tool_context: ToolContext) -> dict[str, Any]:
        cart = tool_context.state.get("user:cart", [])
        tool_context.state["user:cart"] = [*cart, item]
        tool_context.state["temp:seen"] = item
        return {"items": len(cart) + 1}

    llm = model(("add", {"item": "milk"}), "milk is in", ("add", {"item": "tea"}), "tea too")
    agent = LlmAgent(name="shop", model=llm, instruction="Cart: {user:cart?}", tools=[add], output_key="said")
    runner = Runner(app_name=name, agent=agent, session_service=service)
    await service.create_session(app_name=name, user_id="u", session_id="s")
    assert texts(await say(runner, "s", "milk please")) == ["milk is in"]
    assert texts(await say(runner, "s", "and tea", state_delta={"asked": True})) == ["tea too"]
    session = await service.get_session(app_name=name, user_id="u", session_id="s")
    assert session.state == {"said": "tea too", "user:cart": ["milk", "tea"], "asked": True}
    assert [event.author for event in session.events] == ["user", "shop", "shop", "shop"] * 2
    assert "['milk']" in str(llm.requests[2].config.system_instruction)
    assert all("temp:seen" not in event.actions.state_delta for event in session.events)
    assert (await service.verify(session))["events"] == 8


async def test_agents_one_after_the_other_side_by_side_and_in_a_loop(service: Any, name: str) -> None:
    def agent(part: str, *answers: str, key: str | None = None) -> LlmAgent:
        return LlmAgent(name=part, model=model(*answers), output_key=key or part)

    side = ParallelAgent(name="side", sub_agents=[agent("left", "L", key="left"), agent("right", "R", key="app:right")])
    again = LoopAgent(name="again", max_iterations=2, sub_agents=[agent("turn", "1", "2", key="temp:turn")])
    last = LlmAgent(name="last", model=model("done"), instruction="{left} {app:right} {temp:turn}", output_key="last")
    root = SequentialAgent(name="root", sub_agents=[agent("first", "F"), side, again, last])
    runner = Runner(app_name=name, agent=root, session_service=service)
    await service.create_session(app_name=name, user_id="u", session_id="s")
    events = await say(runner, "s", "go")
    assert sorted(texts(events)) == ["1", "2", "F", "L", "R", "done"]
    session = await service.get_session(app_name=name, user_id="u", session_id="s")
    assert session.state == {"first": "F", "left": "L", "app:right": "R", "last": "done"}
    assert {event.branch for event in session.events if event.author in ("left", "right")} == {
        "side.left",
        "side.right",
    }
    assert "L R 2" in str(last.model.requests[0].config.system_instruction)  # type: ignore[union-attr]


async def test_a_rewind_by_the_runner(service: Any, name: str) -> None:
    runner = Runner(
        app_name=name,
        session_service=service,
        agent=LlmAgent(name="a", model=model("one", "two", "three"), output_key="k"),
    )
    await service.create_session(app_name=name, user_id="u", session_id="s")
    await say(runner, "s", "first")
    second = (await say(runner, "s", "second"))[0].invocation_id
    await runner.rewind_async(user_id="u", session_id="s", rewind_before_invocation_id=second)
    assert (await service.get_session(app_name=name, user_id="u", session_id="s")).state == {"k": "one"}
    await say(runner, "s", "third")
    contents = runner.agent.model.requests[2].contents  # type: ignore[union-attr]
    assert [part.text for content in contents for part in content.parts] == ["first", "one", "third"]


async def test_a_run_that_paused_is_resumed_by_another_process_like_runner(service: Any, name: str) -> None:
    def approve(amount: int) -> None:
        """Asks somebody, who answers later."""

    def build(*answers: Any) -> Runner:
        agent = LlmAgent(name="a", model=model(*answers), tools=[LongRunningFunctionTool(approve)], output_key="said")
        app = App(name=name, root_agent=agent, resumability_config=ResumabilityConfig(is_resumable=True))
        return Runner(app=app, session_service=service)

    await service.create_session(app_name=name, user_id="u", session_id="s")
    paused = await say(build(("approve", {"amount": 5}), "never said"), "s", "pay")
    call = next(call for event in paused for call in event.get_function_calls())
    assert any(event.long_running_tool_ids == {call.id} for event in paused)
    answer = types.Part(function_response=types.FunctionResponse(id=call.id, name="approve", response={"ok": True}))
    resumed = await say(build("approved"), "s", answer, invocation_id=paused[0].invocation_id)
    assert texts(resumed) == ["approved"]
    session = await service.get_session(app_name=name, user_id="u", session_id="s")
    assert session.state["said"] == "approved"


async def test_runs_of_two_runners_on_one_session_lose_nothing(service: Any, name: str) -> None:
    import asyncio

    def build(key: str) -> Runner:
        agent = LlmAgent(name="a", model=model(*["x"] * 5), output_key=key)
        return Runner(app_name=name, agent=agent, session_service=service)

    await service.create_session(app_name=name, user_id="u", session_id="s")

    async def talk(runner: Runner) -> None:
        for n in range(5):
            await say(runner, "s", str(n))

    await asyncio.gather(talk(build("k1")), talk(build("k2")))
    session = await service.get_session(app_name=name, user_id="u", session_id="s")
    assert len(session.events) == 20 and session.state == {"k1": "x", "k2": "x"}
