"""Calls methods of a service without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from ._scratchbook import set_waits, waits

R = TypeVar("R")


def wait(coroutine: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine of a service to its end. No event loop is needed; a running event loop is blocked meanwhile.

    Raises:
        TypeError: the argument is not a coroutine.
        RuntimeError: the coroutine awaits something other than the store.
    """
    if not hasattr(coroutine, "send"):
        raise TypeError(f"a coroutine is waited for, as service.open() is one, not a {type(coroutine).__name__}")
    before = waits()
    try:
        set_waits(True)
        coroutine.send(None)
    except StopIteration as ended:
        result: R = ended.value
        return result
    finally:
        set_waits(before)
    coroutine.close()
    raise RuntimeError("the coroutine awaits something else than a call; run it in an event loop")
