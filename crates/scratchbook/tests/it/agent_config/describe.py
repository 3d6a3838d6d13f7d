"""Describes files of agents as google-adk loads them: prints the agents of each file given, and the fields of its classes."""

import json
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from google.adk.agents import LlmAgent
from google.adk.agents.common_configs import AgentRefConfig
from google.adk.agents.config_agent_utils import from_config
from google.adk.agents.llm_agent_config import LlmAgentConfig
from google.adk.agents.loop_agent_config import LoopAgentConfig
from google.adk.agents.parallel_agent_config import ParallelAgentConfig
from google.adk.agents.sequential_agent_config import SequentialAgentConfig
from google.adk.tools.agent_tool import AgentToolConfig
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.mcp_tool import mcp_toolset
from google.adk.tools.tool_configs import ToolConfig
from google.genai.types import GenerateContentConfig

CLASSES = [
    LlmAgentConfig, SequentialAgentConfig, LoopAgentConfig, ParallelAgentConfig, AgentRefConfig, ToolConfig,
    AgentToolConfig, GenerateContentConfig, mcp_toolset.McpToolsetConfig, mcp_toolset.StdioServerParameters,
    mcp_toolset.StdioConnectionParams, mcp_toolset.StreamableHTTPConnectionParams,
]


def tool_name(tool):
    if isinstance(tool, BaseToolset):
        return "a toolset"
    return getattr(tool, "name", None) or tool.__name__


def described(agent):
    about = {
        "name": agent.name,
        "description": agent.description,
        "sub_agents": [described(below) for below in agent.sub_agents],
    }
    if isinstance(agent, LlmAgent):
        about["model"] = agent.canonical_model.model
        about["instruction"] = agent.instruction
        about["output_key"] = agent.output_key
        about["tools"] = sorted(tool_name(tool) for tool in agent.tools)
    return about


mcp_toolset._set_allow_config_stdio_servers(True)
print(json.dumps({
    "agents": [described(from_config(path)) for path in sys.argv[1:]],
    "fields": {of.__name__: sorted(of.model_fields) for of in CLASSES},
}))
