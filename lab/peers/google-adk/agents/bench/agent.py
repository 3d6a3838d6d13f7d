"""An agent whose model is scripted: it calls a tool that writes state, and then answers with text."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import Agent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types


class Scripted(BaseLlm):
    """Answers a result of the tool with text, and everything else with a call of the tool."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1]
        if any(part.function_response for part in last.parts or ()):
            part = types.Part(text="It is done.")
        else:
            part = types.Part(function_call=types.FunctionCall(name="book", args={"room": "lake"}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def book(room: str, tool_context: ToolContext) -> dict[str, Any]:
    """Books a room."""
    tool_context.state["step"] = f"booked {room}"
    tool_context.state["user:last"] = room
    return {"booked": room}


root_agent = Agent(name="agent", model=Scripted(model="scripted"), instruction="Book rooms.", tools=[book])
