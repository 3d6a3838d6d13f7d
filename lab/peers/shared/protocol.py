"""The runner's side of the protocol: one line about the system, then one answer for each request of the harness."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import uvloop


@dataclass(frozen=True)
class Request:
    """One cell: what to do, with how much, by how many tasks, and for how long."""

    workload: str
    size: int = 0
    tasks: int = 1
    seconds: float = 1.0
    round: int = 1


Workload = Callable[[Request], Awaitable[dict[str, Any]]]


class Unsupported(Exception):
    """The system cannot do a workload; the message is the reason, in one sentence."""


async def answer(line: str, workloads: Mapping[str, Workload]) -> dict[str, Any]:
    """Carries out the request in one line. A failure is an answer, too."""
    try:
        request = Request(**json.loads(line))
        if request.workload not in workloads:
            raise Unsupported(f"the runner has no workload '{request.workload}' on this store.")
        return await workloads[request.workload](request)
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


async def serve(about: Mapping[str, Any], workloads: Mapping[str, Workload]) -> None:
    """Answers every request on standard input. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps(about), file=answers)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await answer(line, workloads)), file=answers)


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Runs a program on uvloop, the fastest event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
