"""A minimal HTTP client: one connection, one request after the other."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any


def free_port() -> int:
    """A port on which no process listens now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Client:
    """A persistent connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        # An answer may be one long line for the reader.
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 26))

    async def ask(self, method: str, path: str, body: Any = None) -> bytes:
        """Sends a request, which has to succeed, and returns the body of its answer."""
        sent = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
        answer = await self._reader.readexactly(length)
        if " 200" not in lines[0]:
            raise RuntimeError(f"{method} {path}: {lines[0]}: {answer[:200]!r}")
        return answer

    def close(self) -> None:
        self._writer.close()
