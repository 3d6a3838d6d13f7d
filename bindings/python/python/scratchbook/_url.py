"""Stores by the URLs that people already have: SQLAlchemy's."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from ._errors import InvalidArgumentError

PREFIX = "scratchbook+"
"""What a URL begins with where google-adk's registry is to know it for ours."""

# Of the drivers that are not here: they say nothing about a store.
_SQLITE_DRIVER = {"check_same_thread"}
_MYSQL_DRIVER = {"charset", "autocommit"}


def store_uri(url: Any) -> str:
    """The URI of a store for a URL as SQLAlchemy has it: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db`,
    `postgresql+asyncpg://...`, `mysql+aiomysql://...`; with `scratchbook+` before it or without; as text or as an
    `sqlalchemy.URL`.

    Raises:
        InvalidArgumentError: a URL of SQLite's that names a host, as `sqlite://sessions.db` does.
    """
    render = getattr(url, "render_as_string", None)
    text = str(render(hide_password=False) if render else url).removeprefix(PREFIX)
    if text in ("memory:", "memory://"):
        return "memory:"
    scheme, separator, rest = text.partition("://")
    kind = scheme.split("+")[0].lower()
    if separator and kind == "sqlite":
        return _sqlite(rest)
    if separator and kind in ("mysql", "mariadb"):
        return f"{kind}://{_without(rest, _MYSQL_DRIVER)}"
    return text


def _sqlite(rest: str) -> str:
    if not rest.startswith("/"):
        if rest:
            raise InvalidArgumentError(
                f"'sqlite://{rest}' names a host, which a file has none of; a relative path is written with three "
                "slashes, sqlite:///sessions.db, and an absolute one with four, sqlite:////data/sessions.db"
            )
        return "memory:"
    path, _, query = _without(rest[1:], _SQLITE_DRIVER).partition("?")
    if path in ("", ":memory:"):
        return "memory:"
    parameters = parse_qsl(query, keep_blank_values=True)
    # As Python's sqlite3 has it: seconds to wait for others.
    known = [
        ("lock_timeout_ms", _milliseconds(value)) if name == "timeout" else (name, value) for name, value in parameters
    ]
    return f"sqlite://{path}" + (f"?{urlencode(known)}" if known else "")


def _milliseconds(seconds: str) -> str:
    try:
        return str(round(float(seconds) * 1000))
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"timeout={seconds} is no number of seconds; timeout=5 is one") from None


def _without(rest: str, names: set[str]) -> str:
    address, mark, query = rest.partition("?")
    if not mark:
        return rest
    kept = [pair for pair in query.split("&") if pair.split("=")[0] not in names]
    return address + (f"?{'&'.join(kept)}" if kept else "")
