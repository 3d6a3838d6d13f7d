"""The agent of the turns."""

from . import agent as agent
