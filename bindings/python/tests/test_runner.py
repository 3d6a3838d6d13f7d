"""google-adk's Runner on these sessions: agents, tools, templates, rewind and resumption."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import AsyncGenerator
from importlib import metadata
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from scratchbook import InvalidArgumentError, ScratchbookSessionService, StaleSessionError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Scripted(BaseLlm):
    """A model that gives scripted answers, one per call, and keeps its requests."""

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
    """An app name that google-adk accepts, for this test only."""
    import secrets

    return f"app_{secrets.token_hex(6)}"


async def test_number_beyond_json_in_a_tools_result_is_answered_with_numbers_adk(name: str) -> None:
    def odd() -> dict[str, Any]:
        """A result with numbers that JSON lacks."""
        return {"nan": float("nan"), "wei": 2**70}

    for numbers, expected in (("strict", []), ("adk", [{"nan": None, "wei": str(2**70)}])):
        service = ScratchbookSessionService("memory:", numbers=numbers)  # type: ignore[arg-type]
        agent = LlmAgent(name="shop", model=model(("odd", {}), "done"), tools=[odd])
        runner = Runner(app_name=name, agent=agent, session_service=service)
        await service.create_session(app_name=name, user_id="u", session_id="s")
        if numbers == "strict":
            with pytest.raises(InvalidArgumentError, match='numbers="adk"'):
                await say(runner, "s", "go")
        else:
            assert texts(await say(runner, "s", "go")) == ["done"]
        session = await service.get_session(app_name=name, user_id="u", session_id="s")
        assert session is not None
        parts = [part for event in session.events for part in (event.content.parts or [] if event.content else [])]
        assert [part.function_response.response for part in parts if part.function_response] == expected


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


async def shown(word: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs the README's example that contains a word, with some variables defined; returns all variables afterwards."""
    examples = re.findall(r"```python\n(.*?)```", str(metadata.metadata("scratchbook").get_payload()), re.DOTALL)
    (example,) = [example for example in examples if word in example]
    code = compile(example, word, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)
    if inspect.isawaitable(done):
        await done
    return names


async def test_the_tool_of_the_description_loses_nothing_of_runs_at_the_same_time(service: Any, name: str) -> None:
    names = await shown("def buy", {"service": service, "ToolContext": ToolContext})
    await service.create_session(app_name=name, user_id="u", session_id="s")

    async def talk(item: str) -> None:
        agent = LlmAgent(name="a", model=model(("buy", {"item": item}), "bought"), tools=[names["buy"]])
        await say(Runner(app_name=name, agent=agent, session_service=service), "s", "buy")

    await asyncio.gather(*(talk(f"i{n}") for n in range(4)))
    session = await service.get_session(app_name=name, user_id="u", session_id="s")
    assert sorted(session.state["cart"]) == ["i0", "i1", "i2", "i3"] and session.state["app:sold"] == 4


@pytest.mark.parametrize("conflict", ["strict", "by_key"])
async def test_the_tool_of_the_description_does_not_get_in_the_way_of_its_own_run(
    uri: str, name: str, conflict: Any
) -> None:
    async with ScratchbookSessionService(uri, conflict=conflict) as service:
        names = await shown("def buy", {"service": service, "ToolContext": ToolContext})
        llm = model(("buy", {"item": "tea"}), "bought")
        agent = LlmAgent(name="a", model=llm, tools=[names["buy"]], instruction="Sold: {app:sold?}")
        await service.create_session(app_name=name, user_id="u", session_id="s")
        events = await say(Runner(app_name=name, agent=agent, session_service=service), "s", "buy")
        assert [answer.response for e in events for answer in e.get_function_responses()] == [{"items": 1, "sold": 1}]
        assert "Sold: 1" in str(llm.requests[1].config.system_instruction)


async def test_a_refused_run_is_taken_back_and_run_again_as_the_description_has_it(uri: str) -> None:
    async with ScratchbookSessionService(uri, conflict="by_key") as service:
        other = await service.create_session(app_name="shop", user_id="other")
        sold = (await service.get_app_state(app_name="shop")).get("sold", 0)
        others = [2, 3]

        async def sell(tool_context: ToolContext) -> None:
            now = tool_context.state.get("app:sold", 0)
            if others:
                await service.increment(other, "app:sold", others.pop())
            tool_context.state["app:sold"] = now + 1

        llm = model(("sell", {}), ("sell", {}), ("sell", {}), "sold")
        runner = Runner(app_name="shop", agent=LlmAgent(name="a", model=llm, tools=[sell]), session_service=service)
        await service.delete_session(app_name="shop", user_id="alice", session_id="s")
        await service.create_session(app_name="shop", user_id="alice", session_id="s")
        given = {"service": service, "runner": runner, "types": types, "Event": Event}
        names = await shown("async def run(", {**given, "StaleSessionError": StaleSessionError})
        message = types.Content(role="user", parts=[types.Part(text="sell one")])
        assert texts(await names["run"](message)) == ["sold"]
        assert (await service.get_app_state(app_name="shop"))["sold"] == sold + 6
        # The model gets the same request as the first time.
        assert [part.text for content in llm.requests[2].contents for part in content.parts] == ["sell one"]


async def test_the_exact_ways_of_the_description_are_exact(service: Any, name: str) -> None:
    session = await service.create_session(app_name=name, user_id="u", state={"app:seats": 5})
    copy = await service.get_session(app_name=name, user_id="u", session_id=session.id)
    for mine in (session, copy):
        given = {"service": service, "session": mine, "Event": Event, "EventActions": EventActions}
        names = await shown("def book", given)
    assert names["count"] == 2 and await service.get_app_state(app_name=name) == {"seats": 1}
