"""Writes values in state and events as JSON, by google-adk's rules."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from ._errors import InvalidArgumentError

_ITEMS = (list, tuple, set, frozenset)

Numbers = Literal["strict", "adk"]
"""What becomes of a number that no store can give back. `strict`: the call is refused. `adk`: NaN and infinities become
`null`, and an integer beyond 64 bits becomes its digits as a string."""

ADK_NUMBERS = '; or create the service with numbers="adk", which stores null for NaN and the digits for an integer'
"""The advice of errors about numbers, for services that have the option."""

LONG = re.compile(rb"[0-9]{19}")
"""Matches JSON that may have an integer beyond 64 bits."""


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
    check_numbers(value, is_exact=False)


def check_numbers(value: Any, is_exact: bool = True, advice: str = "") -> None:
    """Refuses numbers that no store can give back: without a JSON form, or, if `is_exact`, an integer beyond 64 bits.

    Raises:
        InvalidArgumentError: the value contains such a number; the message names its place.
    """
    for path, found in _walk(value):
        where = ".".join(map(str, path)) or "the value"
        if isinstance(found, float) and not math.isfinite(found):
            raise InvalidArgumentError(f"{where} is NaN or infinite, which JSON has no form for; leave it out{advice}")
        if is_exact and isinstance(found, int) and not _fits(found):
            raise InvalidArgumentError(f"{where} is an integer beyond 64 bits; give it as a string{advice}")


def check_written_keys(text: bytes, value: Callable[[], Any]) -> None:
    """Refuses a key that pydantic has changed in its JSON: it writes half of a surrogate pair as U+FFFD. Only JSON with
    this character is compared with the value.

    Raises:
        InvalidArgumentError: a key was changed.
    """
    if "\ufffd".encode() not in text:
        return
    for _, found in _walk(value()):
        for key in found if isinstance(found, dict) else ():
            check_text(str(key))


def check_keys(state: dict[Any, Any]) -> None:
    """Refuses keys of state that are not text, since JSON would convert them: a number to a string, and half of a
    surrogate pair to a replacement character, so that two keys become one.

    Raises:
        InvalidArgumentError: a key is not text; the message names the first such key.
    """
    for key in state:
        if not isinstance(key, str):
            raise InvalidArgumentError(f"a key of state is a string, not {key!r}")
        check_text(key)


def check_text(key: str) -> None:
    """Refuses a key with half of a surrogate pair, which has no UTF-8.

    Raises:
        InvalidArgumentError: the key is not Unicode text.
    """
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"the key {key!a} has half of a surrogate pair, which is no text") from error


def fitted(value: Any) -> Any:
    """A JSON value with only the numbers that every store can give back, by the rules of `numbers="adk"`."""
    if isinstance(value, dict):
        return {key: fitted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [fitted(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and not _fits(value):
        return str(value)
    return value


def _plain(value: Any) -> Any:
    try:
        from pydantic_core import to_jsonable_python
    except ImportError:
        raise TypeError(f"a {type(value).__name__} is no JSON; convert it, or install pydantic, which does") from None
    return to_jsonable_python(value)


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**64


def _walk(value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """A value and all values inside it, each with its place. The function is not recursive, since a value may be deep
    or contain itself."""
    looked_at: set[int] = set()
    ahead: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while ahead:
        found, path = ahead.pop()
        yield path, found
        if not isinstance(found, (dict, *_ITEMS)) or id(found) in looked_at:
            continue
        looked_at.add(id(found))
        items = found.items() if isinstance(found, dict) else enumerate(found)
        # Paths are cut off after 100 steps.
        ahead.extend((item, (*path, name) if len(path) < 100 else path) for name, item in items)
