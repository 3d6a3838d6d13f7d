"""The store that a URL names, and the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import scratchbook
from scratchbook import SessionService, wait
from scratchbook._url import store_uri


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("memory:", "memory:"),
        ("memory://", "memory:"),
        ("scratchbook+memory:", "memory:"),
        ("sqlite://", "memory:"),
        ("sqlite:///:memory:", "memory:"),
        ("sqlite+aiosqlite:///:memory:", "memory:"),
        ("sqlite:///a.db", "sqlite://a.db"),
        ("sqlite:////data/a.db", "sqlite:///data/a.db"),
        ("sqlite:////a.db", "sqlite:////a.db"),
        ("sqlite+aiosqlite:///dir/a b%20c.db", "sqlite://dir/a b%20c.db"),
        ("scratchbook+sqlite:////data/a.db?synchronous=normal", "sqlite:///data/a.db?synchronous=normal"),
        ("sqlite:///a.db?check_same_thread=false&timeout=1.5", "sqlite://a.db?lock_timeout_ms=1500"),
        ("postgresql+asyncpg://u:p%40@h:1/d?ssl=require", "postgresql+asyncpg://u:p%40@h:1/d?ssl=require"),
        ("scratchbook+postgresql://h/d", "postgresql://h/d"),
        ("mysql+aiomysql://u:p@h/d?charset=utf8mb4", "mysql://u:p@h/d"),
        ("mariadb+asyncmy://u:p@h/d?charset=utf8mb4&table_prefix=x_", "mariadb://u:p@h/d?table_prefix=x_"),
    ],
)
def test_urls_mean_what_they_mean_to_sqlalchemy(url: str, uri: str) -> None:
    assert store_uri(url) == uri


def test_a_sqlalchemy_url_is_taken_with_its_password() -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = sqlalchemy.make_url("postgresql+asyncpg://me:s3cret@db/agents")
    assert store_uri(url) == "postgresql+asyncpg://me:s3cret@db/agents"


@pytest.mark.parametrize("url", ["sqlite://a.db", "sqlite://host/a.db"])
def test_a_sqlite_url_with_a_host_says_how_many_slashes_are_right(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///scratchbook.db"):
        SessionService(url)


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("sessions.db", "sqlite:///sessions.db"),
        ("/data/sessions.db", "sqlite:////data/sessions.db"),
        (Path("data/sessions.db"), "sqlite:///data/sessions.db"),
        ("sqlite:sessions.db", "sqlite:////data/scratchbook.db"),
        ("sqlite:/data/a.db", "sqlite:////data/scratchbook.db"),
    ],
)
def test_a_path_says_what_its_url_is(url: Any, right: str) -> None:
    with pytest.raises(scratchbook.InvalidArgumentError, match=right):
        SessionService(url)


@pytest.mark.parametrize(
    "url", ["oracle://me:s3cret@h/d", "me:s3cret@h/d", "password=s3cret", "", None, 3, b"sqlite://"]
)
def test_what_names_no_store_is_refused(url: Any) -> None:
    with pytest.raises(scratchbook.InvalidArgumentError, match="sqlite:///scratchbook.db") as caught:
        SessionService(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite:///a.db?no_such=1", "postgresql://h/d?x=1"])
def test_what_a_store_has_no_parameter_for_is_refused_at_the_first_call(url: str) -> None:
    with pytest.raises(scratchbook.InvalidArgumentError):
        wait(SessionService(url).open())


@pytest.mark.parametrize("timeout", ["soon", "inf", "nan", ""])
def test_a_timeout_that_is_none_is_refused(timeout: str) -> None:
    with pytest.raises(scratchbook.InvalidArgumentError, match="number of seconds"):
        SessionService(f"sqlite:///a.db?timeout={timeout}")


def test_a_relative_path_is_in_this_folder_and_an_absolute_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url, file in (("sqlite:///rel.db", "rel.db"), (f"sqlite:///{tmp_path}/abs.db", "abs.db")):
        service = SessionService(url)
        assert not os.path.exists(tmp_path / file)
        wait(service.open())
        assert (tmp_path / file).is_file()
        wait(service.close())


def test_a_file_may_be_opened_for_reading_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = scratchbook.SessionService("sqlite:///sessions.db?mode=ro")
    with pytest.raises(scratchbook.NotFoundError, match=r"sessions\.db"):
        wait(reader.open())
    with pytest.raises(scratchbook.NotFoundError):
        wait(scratchbook.SessionService("sqlite:///sessions.db?mode=rw").open())
    writer = scratchbook.SessionService("sqlite:///sessions.db")
    # google-adk's service creates its tables in the same call.
    wait(writer.prepare_tables())
    assert (tmp_path / "sessions.db").exists()
    wait(writer.create_session(app_name="a", user_id="u", session_id="s"))
    for url in ("sqlite:///sessions.db?mode=ro", "sqlite:///file:sessions.db?mode=ro&uri=true"):
        reader = scratchbook.SessionService(url)
        assert wait(reader.get_session(app_name="a", user_id="u", session_id="s"))["id"] == "s"
        with pytest.raises(scratchbook.PermissionDeniedError, match="mode=ro"):
            wait(reader.create_session(app_name="a", user_id="u", session_id="t"))


def test_a_folder_or_a_database_that_is_not_there_is_no_missing_session(tmp_path: Path) -> None:
    with pytest.raises(scratchbook.NotFoundError, match="make it first") as caught:
        wait(SessionService(f"sqlite:///{tmp_path}/missing/a.db").open())
    assert not isinstance(caught.value, scratchbook.SessionNotFoundError)


@pytest.mark.parametrize("uri", ["postgres", "mariadb"], indirect=True)
def test_a_database_that_is_not_there_is_no_missing_session(uri: str) -> None:
    with pytest.raises(scratchbook.NotFoundError, match="there is no such database") as caught:
        wait(SessionService(uri.replace("?", "_not?", 1)).create_session(app_name="a", user_id="u"))
    assert not isinstance(caught.value, scratchbook.SessionNotFoundError)
    assert str(caught.value).count("does not exist") <= 1


@pytest.mark.parametrize("uri", ["postgres", "mariadb"], indirect=True)
def test_a_wrong_password_has_a_class_of_its_own(uri: str) -> None:
    user, _, address = uri.rpartition("@")
    with pytest.raises(scratchbook.UnauthenticatedError) as caught:
        wait(SessionService(f"{user}-not@{address}").open())
    assert isinstance(caught.value, PermissionError) and "-not" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("memory:", "memory:"),
        ("sqlite:///", "memory:"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("scratchbook+sqlite:////data/a b%20c.db?timeout=1", "sqlite:////data/a b%20c.db?lock_timeout_ms=1000"),
        ("postgresql+asyncpg://me:s3cret@h:1/d?schema=x&pool_size=3", "postgresql://me@h:1/d?schema=x"),
        ("postgresql://me:p?schema=s3cret@h/d", "postgresql://me@h/d"),
        ("mariadb://me:s3cret@h/d?charset=utf8mb4&table_prefix=x_", "mariadb://me@h/d?table_prefix=x_"),
    ],
)
def test_a_service_shows_the_url_that_names_its_store(url: str, shown: str) -> None:
    assert repr(SessionService(url)) == f"SessionService({shown!r})"
    assert repr(SessionService(shown)) == f"SessionService({shown!r})"


def test_no_password_of_a_query_is_shown() -> None:
    for url in ("postgresql://h/d?user=me&password=s3cret?schema=s3cret", "postgresql://me@h/d?password=s3@t&schema=s"):
        assert "s3" not in repr(SessionService(url))


def test_no_password_is_shown() -> None:
    service = SessionService("postgresql://me:s3cret@127.0.0.1:1/db?connect_timeout=1&retry_timeout_ms=1")
    assert "s3cret" not in repr(service) and "me" in repr(service)
    with pytest.raises(scratchbook.ScratchbookError) as caught:
        wait(service.open())
    assert "s3cret" not in str(caught.value) and caught.value.kind == "unavailable"
    assert isinstance(caught.value, ConnectionError)
