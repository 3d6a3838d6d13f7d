"""Runs google-adk's McpToolset with the calls on standard input, and prints the request and the responses."""

import asyncio
import json
import sys

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams, StreamableHTTPConnectionParams
from google.genai import types
from mcp import StdioServerParameters

task = json.load(sys.stdin)
asked = []


class Script(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        config = llm_request.config
        declared = [f for tool in config.tools for f in tool.function_declarations or []]
        asked.append(
            {
                "instruction": config.system_instruction,
                "tools": [f.model_dump(mode="json", by_alias=True, exclude_none=True) for f in declared],
            }
        )
        parts = [types.Part.from_text(text="Done.")]
        if len(asked) == 1:
            parts = [types.Part.from_function_call(name=name, args=args) for name, args in task["calls"]]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def connection():
    if "url" in task:
        return StreamableHTTPConnectionParams(url=task["url"], headers=task.get("headers"), timeout=30)
    server = StdioServerParameters(command=task["command"], args=task["args"], env=task.get("env"))
    return StdioConnectionParams(server_params=server, timeout=30)


async def main():
    tools = McpToolset(
        connection_params=connection(),
        tool_filter=task.get("filter"),
        tool_name_prefix=task.get("prefix"),
        require_confirmation=task.get("confirmation", False),
    )
    agent = LlmAgent(name="caller", model=Script(model="scripted"), tools=[tools])
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="alice")
    message = types.UserContent(parts=[types.Part.from_text(text="Go.")])
    responses = []
    async for event in runner.run_async(user_id="alice", session_id=session.id, new_message=message):
        responses += [answer.response for answer in event.get_function_responses()]
    await tools.close()
    print(json.dumps({"request": asked[0], "responses": responses}))


asyncio.run(main())
