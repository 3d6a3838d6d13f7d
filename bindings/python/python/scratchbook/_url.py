"""Stores by the URLs that people already have: SQLAlchemy's."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from ._errors import InvalidArgumentError

PREFIX = "scratchbook+"
"""What a URL begins with where google-adk's registry is to know it for ours."""

KINDS = ("memory", "sqlite", "postgresql", "postgres", "mysql", "mariadb")
"""What a scheme begins with."""

SERVERS = KINDS[2:]

DRIVERS = {
    "sqlite": ("aiosqlite", "pysqlite"),
    "postgresql": ("asyncpg", "psycopg", "psycopg2", "psycopg_async", "pg8000"),
    "mysql": ("aiomysql", "asyncmy", "mysqlconnector", "mysqldb", "pymysql"),
    "mariadb": ("aiomysql", "asyncmy", "mariadbconnector", "mysqldb", "pymysql"),
}
"""SQLAlchemy's drivers, which may be named in a scheme."""

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
    # Else the text is not shown: it may have a password in it.
    if not separator or kind not in KINDS:
        what = f"'{kind}://'" if separator else "this"
        raise InvalidArgumentError(
            f"no store is named by {what}; there are memory:, sqlite:///sessions.db, postgresql://USER:PASSWORD@HOST/"
            "DATABASE and mysql://USER:PASSWORD@HOST/DATABASE"
        )
    if kind == "sqlite":
        return _sqlite(rest)
    if kind in ("mysql", "mariadb"):
        return f"{kind}://{_without(rest, _MYSQL_DRIVER)}"
    return text


def with_options(url: str, options: dict[str, Any]) -> str:
    """A URL with what google-adk's command line is told by `--session_db_kwargs`.

    Raises:
        InvalidArgumentError: names what has no meaning here.
    """
    size = options.get("pool_size")
    is_server = url.removeprefix(PREFIX).startswith(SERVERS)
    wrong = [name for name in options if name != "pool_size" or not is_server or type(size) is not int]
    if wrong:
        raise InvalidArgumentError(
            f"{', '.join(wrong)}: no option of a service, or not with this value; a server's URL has a number as "
            "pool_size, every service conflict and keep_repeated_ids, and all else is in the URL"
        )
    return url if size is None else f"{url}{'&' if '?' in url else '?'}pool_size={size}"


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
