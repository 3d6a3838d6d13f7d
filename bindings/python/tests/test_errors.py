"""What an exception says about a call that failed."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from conftest import server_uri

import scratchbook
from scratchbook._errors import CLASSES, make


class LosesAnswers:
    """A proxy before a server. It passes on a request with the text `loses-answer`, and closes the connection."""

    def __init__(self, host: str, port: int) -> None:
        self.server = (host, port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.server)
                for source, target, is_request in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self.copy, args=(source, target, is_request), daemon=True).start()

    def copy(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_request and b"loses-answer" in data:
                    source.shutdown(socket.SHUT_RDWR)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy() -> Iterator[LosesAnswers]:
    server = urlsplit(server_uri("postgres"))
    proxy = LosesAnswers(server.hostname or "127.0.0.1", server.port or 5432)
    yield proxy
    proxy.listener.close()


async def test_write_to_postgres_whose_answer_is_lost_is_not_retryable(proxy: LosesAnswers, app: str) -> None:
    server = urlsplit(server_uri("postgres"))
    login = server.netloc.rpartition("@")[0]
    url = server._replace(netloc=f"{login}@127.0.0.1:{proxy.port}").geturl()
    async with scratchbook.SessionService(url) as service:
        await service.put_state({"n": 1}, app_name=app, user_id="u", author="test")
        with pytest.raises(scratchbook.UnavailableError) as caught:
            await service.put_state({"n": 2}, app_name=app, user_id="u", author="loses-answer")
        assert not caught.value.is_retryable, caught.value


def test_errors_are_retryable_by_their_kind_unless_the_compiled_part_says_otherwise() -> None:
    for kind, retryable in (("unavailable", True), ("conflict", True), ("invalid_argument", False)):
        assert CLASSES[kind]("text").is_retryable is retryable
    assert make("unavailable", "text", None, False).is_retryable is False
    assert make("unavailable", "text", None, True).is_retryable is True
    unknown = make("another", "text", None, False)
    assert (unknown.kind, type(unknown)) == ("another", scratchbook.ScratchbookError)
