"""Reads google-adk's models from the store's JSON, without the conveniences of their constructors.

google-adk's events accept shorthands (`message=...`), and the models of google-genai warn of objects of another class.
Both are Python functions that pydantic calls for each event and each part, and they take more than half of the time to
read a session. The store's JSON needs neither of them, since it contains neither shorthands nor objects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import SchemaValidator

M = TypeVar("M", bound=BaseModel)

logger = logging.getLogger("scratchbook")

LEFT_OUT = frozenset({"_accept_convenience_kwargs", "_check_field_type_mismatches"})
"""The names of the functions of google-adk and google-genai that are skipped."""

UNKNOWN_FIELDS = "extra_fields_behavior"
"""The schema key that says how unknown fields are treated. They are accepted, since a field of a newer google-adk must
not make the whole session unreadable for an older one."""


def read(model: type[M], text: bytes) -> M:
    """Reads a model from JSON, with the same result as its `model_validate_json`."""
    found: M = _reader(model)(text)
    return found


@cache
def _reader(model: type[BaseModel]) -> Callable[[bytes], Any]:
    try:
        # Resolves references that are still open in the schema.
        model.model_rebuild()
        schema = without(model.__pydantic_core_schema__)
        options: dict[str, Any] = {"_use_prebuilt": False}
        try:
            return SchemaValidator(schema, **options).validate_json
        except TypeError:  # An older pydantic without prebuilt validators.
            return SchemaValidator(schema).validate_json
    except Exception:  # Another pydantic may differ here: then use its own reader.
        logger.debug("%s is read by all of its validators", model.__name__, exc_info=True)
        return model.model_validate_json


def without(schema: Any) -> Any:
    """A pydantic schema without the skipped functions, without constructors in Python, and without refusing unknown
    fields."""
    if isinstance(schema, list):
        return [without(item) for item in schema]
    if isinstance(schema, tuple):
        return tuple(without(item) for item in schema)
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "function-before" and _name(schema) in LEFT_OUT:
        inner = without(schema["schema"])
        return {**inner, "ref": schema["ref"]} if "ref" in schema else inner
    return {key: _changed(key, item) for key, item in schema.items()}


def _changed(key: str, item: Any) -> Any:
    if key == "custom_init" and item is True:
        return False
    if key == UNKNOWN_FIELDS and item == "forbid":
        return "ignore"
    return without(item)


def _name(schema: dict[str, Any]) -> str:
    return str(getattr(schema["function"]["function"], "__name__", ""))
