"""Stores by the URLs that programs already have: SQLAlchemy's."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode

from ._errors import InvalidArgumentError


class SqlalchemyUrl(Protocol):
    """An `sqlalchemy.URL`, or another object with this method."""

    def render_as_string(self, hide_password: bool = True) -> str: ...


Url = str | SqlalchemyUrl

PREFIX = "scratchbook+"
"""The prefix by which google-adk's registry recognizes our URLs."""

KINDS = ("memory", "sqlite", "postgresql", "postgres", "mysql", "mariadb")
"""The databases that a scheme names."""

SERVERS = KINDS[2:]

DRIVERS = {
    "sqlite": ("aiosqlite", "pysqlite"),
    "postgresql": ("asyncpg", "psycopg", "psycopg2", "psycopg_async", "pg8000"),
    "mysql": ("aiomysql", "asyncmy", "mysqlconnector", "mysqldb", "pymysql"),
    "mariadb": ("aiomysql", "asyncmy", "mariadbconnector", "mysqldb", "pymysql"),
}
"""SQLAlchemy's drivers, which a scheme may name."""

_LIMITS = ("value_bytes", "delta_bytes", "event_bytes")

_THERE_ARE = (
    "there are memory:, sqlite:///scratchbook.db, postgresql://USER:PASSWORD@HOST/DATABASE and "
    "mysql://USER:PASSWORD@HOST/DATABASE"
)
_SLASHES = (
    "a relative path is written with three slashes, sqlite:///scratchbook.db, and an absolute one with four, "
    "sqlite:////data/scratchbook.db"
)

# Parameters of drivers that are not used here: they do not concern a store.
_SQLITE_DRIVER = {"check_same_thread"}
_MYSQL_DRIVER = {"charset", "autocommit"}


def store_uri(url: Any) -> str:
    """The URI of a store for a URL in SQLAlchemy's form: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db`,
    `postgresql+asyncpg://...`, `mysql+aiomysql://...`; with or without a leading `scratchbook+`; as text or as an
    `sqlalchemy.URL`.

    Raises:
        InvalidArgumentError: the text is not a URL, for example a path, or it is a SQLite URL with a host, such as
            `sqlite://sessions.db`.
    """
    text = text_of(url).removeprefix(PREFIX)
    if text in ("memory:", "memory://"):
        return "memory:"
    scheme, separator, rest = text.partition("://")
    kind = scheme.split("+")[0].lower()
    if not separator or kind not in KINDS:
        raise InvalidArgumentError(f"{what_is_wrong(text)}; {_THERE_ARE}")
    if kind == "sqlite":
        return _sqlite(rest)
    if kind in ("mysql", "mariadb"):
        return f"{kind}://{_without(rest, _MYSQL_DRIVER)}"
    return text


def shown(uri: str, without_password: str) -> str:
    """The URL of a store in a form that may be shown and used again: without the password, and with only the
    parameters that identify the tables."""
    if uri.startswith("sqlite://"):
        return f"sqlite:///{uri.removeprefix('sqlite://')}"
    query = uri.rpartition("@")[2].partition("?")[2]
    which = [pair for pair in query.split("&") if pair.split("=")[0] in ("schema", "table_prefix")]
    return f"{without_password}?{'&'.join(which)}" if which else without_password


def limits(uri: str) -> str:
    """The parameters of a store's URL that limit sizes."""
    query = uri.rpartition("@")[2].partition("?")[2]
    return "&".join(pair for pair in query.split("&") if pair.split("=")[0] in _LIMITS)


def text_of(url: Any) -> str:
    """A URL as text, with its password.

    Raises:
        InvalidArgumentError: it is not a URL at all, such as `None` from an unset variable.
    """
    render = getattr(url, "render_as_string", None)
    if render:
        return str(render(hide_password=False))
    if isinstance(url, PurePath):
        url = str(url)
    if url is None or url == "":
        raise InvalidArgumentError(f"no URL was given, but {url!r}; {_THERE_ARE}")
    if not isinstance(url, str):
        raise InvalidArgumentError(f"a store is named by a URL, not by a {type(url).__name__}; {_THERE_ARE}")
    return url


def what_is_wrong(text: str) -> str:
    """The error message for a text that is not a URL of a store. For a path, the message has the URL of this file."""
    scheme, separator, rest = text.partition(":")
    kind = scheme.split("+")[0].lower()
    if kind == "sqlite" and not rest.startswith("//"):
        return f"'{text}' has too few slashes; {_SLASHES}"
    if rest.startswith("//"):
        return f"no store is named by '{kind}://'"
    # Nothing else is shown: it may contain a password.
    if separator or "=" in text or "@" in text:
        return "no store is named by this"
    return f"'{text}' is a path, and a store is named by a URL; the URL of that file is sqlite:///{text}"


def with_options(url: str, options: dict[str, Any]) -> str:
    """A URL with the `session_db_kwargs` of google-adk's `get_fast_api_app`.

    Raises:
        InvalidArgumentError: an option has no meaning here.
    """
    size = options.get("pool_size")
    is_server = url.removeprefix(PREFIX).startswith(SERVERS)
    wrong = [name for name in options if name != "pool_size" or not is_server or type(size) is not int]
    if wrong:
        raise InvalidArgumentError(
            f"{', '.join(wrong)}: no option of a service, or not with this value; a server's URL has a number as "
            "pool_size, every service conflict, keep_repeated_ids and numbers, and all else is in the URL"
        )
    return url if size is None else f"{url}{'&' if '?' in url else '?'}pool_size={size}"


def _sqlite(rest: str) -> str:
    if not rest.startswith("/"):
        if rest:
            raise InvalidArgumentError(f"'sqlite://{rest}' names a host, which a file has none of; {_SLASHES}")
        return "memory:"
    path, _, query = _without(rest[1:], _SQLITE_DRIVER).partition("?")
    if path in ("", ":memory:"):
        return "memory:"
    parameters = parse_qsl(query, keep_blank_values=True)
    # SQLAlchemy's form for SQLite's own URIs: sqlite:///file:sessions.db?mode=ro&uri=true.
    if ("uri", "true") in parameters and path.startswith("file:"):
        path = path.removeprefix("file:")
        parameters.remove(("uri", "true"))
    # As in Python's sqlite3: how many seconds to wait for other processes.
    known = [
        ("lock_timeout_ms", _milliseconds(value)) if name == "timeout" else (name, value) for name, value in parameters
    ]
    if path.rfind("/") == 0:
        # Four slashes mean the root folder; the store refuses three, which are a slip there.
        path = f"/{path}"
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
