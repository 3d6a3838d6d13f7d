"""The two graphs of a thread: one that only takes events, and one whose scripted model answers a message.

Events are messages and the state is a dictionary, both in a `DeltaChannel`: a checkpoint contains only what was added,
and not the whole history.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command


def extended(messages: list[AnyMessage], writes: list[Any]) -> list[AnyMessage]:
    result = list(messages)
    for write in writes:
        result.extend(write if isinstance(write, list) else [write])
    return result


def merged(state: dict[str, str], writes: list[dict[str, str]]) -> dict[str, str]:
    result = dict(state)
    for write in writes:
        result.update(write)
    return result


class Thread(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(extended)]
    state: Annotated[dict[str, str], DeltaChannel(merged)]


def log(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any]:
    """A graph with one node. Events are added as if this node had written them."""
    graph = StateGraph(Thread)
    graph.add_node("agent", lambda _: {})
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    return graph.compile(checkpointer=saver)


@tool
def book(room: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Books a room."""
    answer = ToolMessage(f"booked {room}", tool_call_id=tool_call_id)
    return Command(update={"messages": [answer], "state": {"step": f"booked {room}", "user:last": room}})


class Scripted(BaseChatModel):
    """Answers a result of the tool with text, and everything else with a call of the tool."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            answer = AIMessage("It is done.")
        else:
            answer = AIMessage("", tool_calls=[{"name": "book", "args": {"room": "lake"}, "id": "call"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


def chat(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any]:
    """An agent: a model, its tool, and the model again."""
    model = Scripted()

    async def answer(thread: Thread) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(thread["messages"])]}

    graph = StateGraph(Thread)
    graph.add_node("model", answer)
    graph.add_node("tools", ToolNode([book]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)
