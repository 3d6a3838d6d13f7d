"""JSON of what Python programs put into state and events, by google-adk's rules."""

from __future__ import annotations

import json
import math
from typing import Any

from ._errors import InvalidArgumentError

_ITEMS = (list, tuple, set, frozenset)


def dumps(value: Any) -> bytes:
    """JSON of a value. What is no JSON becomes what google-adk makes of it: a date its ISO form, a set a list, bytes
    their text, a pydantic model an object.

    Raises:
        InvalidArgumentError: NaN and infinities, and what has no JSON at all.
    """
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        check_finite(value)
        raise InvalidArgumentError(f"this has no form in JSON: {error}") from error


def check_finite(value: Any) -> None:
    """Refuses numbers that JSON has no form for.

    Raises:
        InvalidArgumentError: NaN and infinities; says where.
    """
    path = _not_finite(value, ())
    if path is not None:
        where = ".".join(map(str, path)) or "the value"
        raise InvalidArgumentError(f"{where} is NaN or infinite, which JSON has no form for; leave it out")


def check_keys(state: dict[Any, Any]) -> None:
    """Refuses keys of state that are no strings, of which JSON would make some.

    Raises:
        InvalidArgumentError: names the first one.
    """
    for key in state:
        if not isinstance(key, str):
            raise InvalidArgumentError(f"a key of state is a string, not {key!r}")


def _plain(value: Any) -> Any:
    try:
        from pydantic_core import to_jsonable_python
    except ImportError:
        raise TypeError(f"a {type(value).__name__} is no JSON; convert it, or install pydantic, which does") from None
    return to_jsonable_python(value)


def _not_finite(value: Any, path: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Where the first number is that JSON has no form for."""
    if isinstance(value, float) and not math.isfinite(value):
        return path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, _ITEMS) else ()
    for name, item in items:
        found = _not_finite(item, (*path, name)) if len(path) < 100 else None
        if found is not None:
            return found
    return None
