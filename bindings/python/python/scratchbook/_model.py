"""google-adk's models from the store's JSON, without what their constructors do for people.

google-adk's events take shorthands (`message=...`), and the models of google-genai warn of objects of another class.
Both are Python functions, which pydantic calls for each event and each part, also where all comes from JSON, and they
take more than half of the time that a session takes to be read. What a store gives back has neither shorthands nor
objects.
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
"""The functions that are not called: google-adk's and google-genai's, by name."""

UNKNOWN_FIELDS = "extra_fields_behavior"
"""Where a schema says what becomes of unknown fields. One that a newer google-adk has written must not make the whole
session unreadable for an older one."""


def read(model: type[M], text: bytes) -> M:
    """A model from JSON, as its `model_validate_json` makes it."""
    found: M = _reader(model)(text)
    return found


@cache
def _reader(model: type[BaseModel]) -> Callable[[bytes], Any]:
    try:
        # So that nothing in it is left for later.
        model.model_rebuild()
        schema = without(model.__pydantic_core_schema__)
        options: dict[str, Any] = {"_use_prebuilt": False}
        try:
            return SchemaValidator(schema, **options).validate_json
        except TypeError:  # Before there was anything prebuilt.
            return SchemaValidator(schema).validate_json
    except Exception:  # Whatever another pydantic has in place of what is looked for: it is read as pydantic does.
        logger.debug("%s is read by all of its validators", model.__name__, exc_info=True)
        return model.model_validate_json


def without(schema: Any) -> Any:
    """A schema of pydantic's without the functions that are left out, without constructors in Python, and without
    refusals of unknown fields."""
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
