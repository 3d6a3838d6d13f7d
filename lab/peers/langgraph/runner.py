"""A runner of langgraph: `runner.py memory|sqlite|postgres LOCATION`."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from savers import opened  # noqa: E402
from shared.protocol import run, serve  # noqa: E402
from shared.workloads import Workloads  # noqa: E402
from system import LangGraph  # noqa: E402

PACKAGES = {"memory": "langgraph-checkpoint", "sqlite": "langgraph-checkpoint-sqlite"}


async def main() -> None:
    store, location = sys.argv[1:3]
    one = await opened(store, location)
    package = PACKAGES.get(store, "langgraph-checkpoint-postgres")
    about = {
        "system": "langgraph",
        "service": type(one.saver).__name__,
        "version": f"{version('langgraph')}, {package} {version(package)}",
        "store": store,
        "configuration": one.configuration,
    }
    await serve(about, Workloads(LangGraph(store, one)).by_name())
    await one.close()


if __name__ == "__main__":
    run(main)
