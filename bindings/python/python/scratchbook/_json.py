"""Writes values in state and events as JSON, by google-adk's rules."""

from __future__ import annotations

import json
import math
from typing import Any

from ._errors import InvalidArgumentError

_ITEMS = (list, tuple, set, frozenset)


def dumps(value: Any) -> bytes:
    """JSON of a value. Values without a JSON form are converted as google-adk does: a date to its ISO form, a set to a
    list, bytes to their text, a pydantic model to an object.

    Raises:
        InvalidArgumentError: the value contains NaN or an infinity, or cannot be converted.
    """
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        check_finite(value)
        raise InvalidArgumentError(f"this has no form in JSON: {error}") from error


def check_finite(value: Any) -> None:
    """Refuses numbers without a JSON form.

    Raises:
        InvalidArgumentError: the value contains NaN or an infinity; the message names its place.
    """
    path = _not_finite(value)
    if path is not None:
        where = ".".join(map(str, path)) or "the value"
        raise InvalidArgumentError(f"{where} is NaN or infinite, which JSON has no form for; leave it out")


def check_keys(state: dict[Any, Any]) -> None:
    """Refuses keys of state that are not strings, since JSON would convert them.

    Raises:
        InvalidArgumentError: a key is not a string; the message names the first such key.
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


def _not_finite(value: Any) -> tuple[Any, ...] | None:
    """The place of the first number without a JSON form. The function is not recursive, since a value may be deep or
    contain itself."""
    looked_at: set[int] = set()
    ahead: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while ahead:
        found, path = ahead.pop()
        if isinstance(found, float) and not math.isfinite(found):
            return path
        if not isinstance(found, (dict, *_ITEMS)) or id(found) in looked_at:
            continue
        looked_at.add(id(found))
        items = found.items() if isinstance(found, dict) else enumerate(found)
        # Paths are cut off after 100 steps.
        ahead.extend((item, (*path, name) if len(path) < 100 else path) for name, item in items)
    return None
