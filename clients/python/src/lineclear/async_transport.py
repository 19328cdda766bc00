"""HTTP/1.1 over kept-alive connections of one event loop."""

from __future__ import annotations

import asyncio
import http.client
import io
import ssl
import time
from collections import deque
from typing import Mapping

from lineclear.address import Address
from lineclear.errors import NoAnswer
from lineclear.transport import ANSWER_BYTES_MAX, IDLE_CONNECTIONS_MAX, IDLE_SECONDS_MAX, Response

_HEAD_BYTES_MAX = 64 * 1024
_FAILURES = (OSError, EOFError, ValueError, asyncio.LimitOverrunError, http.client.HTTPException)


class AsyncConnection:
    """One kept-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._used_at = time.monotonic()
        self._reusable = True

    @property
    def is_fresh(self) -> bool:
        """Whether the server surely still reads from it."""
        idle = time.monotonic() - self._used_at
        return self._reusable and idle < IDLE_SECONDS_MAX and not self._reader.at_eof()

    async def exchange(self, method: str, request: bytes) -> Response:
        """Sends a request and reads the whole answer."""
        self._reusable = False
        self._writer.write(request)
        await self._writer.drain()
        status, headers = await self._head()
        while 100 <= status < 200:
            status, headers = await self._head()
        body, ends_connection = await self._body(method, status, headers)
        self._reusable = not ends_connection and headers.get("connection", "").lower() != "close"
        self._used_at = time.monotonic()
        return Response(status, headers, body)

    async def _head(self) -> tuple[int, dict[str, str]]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, _, rest = head.partition(b"\r\n")
        words = first.split(None, 2)
        if len(words) < 2 or words[0] != b"HTTP/1.1":
            raise ValueError(f"not an answer in HTTP/1.1: {first[:80]!r}")
        message = http.client.parse_headers(io.BytesIO(rest))
        return int(words[1]), {name.lower(): value for name, value in message.items()}

    async def _body(self, method: str, status: int, headers: Mapping[str, str]) -> tuple[bytes, bool]:
        if method == "HEAD" or status in (204, 304):
            return b"", False
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await self._chunks(), False
        if "content-length" in headers:
            return await self._reader.readexactly(_bounded(int(headers["content-length"]))), False
        return await self._reader.read(ANSWER_BYTES_MAX), True

    async def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            line = await self._reader.readuntil(b"\r\n")
            size = _bounded(int(line.split(b";")[0], 16))
            _bounded(len(body) + size)
            body += (await self._reader.readexactly(size + 2))[:size] if size else b""
            if not size:
                while await self._reader.readuntil(b"\r\n") != b"\r\n":
                    pass
                return bytes(body)

    def close(self) -> None:
        """Closes the connection."""
        self._reusable = False
        self._writer.close()


def _bounded(size: int) -> int:
    if not 0 <= size <= ANSWER_BYTES_MAX:
        raise ValueError(f"the answer has {size} bytes")
    return size


class AsyncPool:
    """Connections for any number of tasks: one for each request at a time."""

    def __init__(self, address: Address, token: str | None, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._context = context if context or not address.tls else ssl.create_default_context()
        self._headers = {
            "host": address.authority,
            "accept": "application/json",
            "user-agent": address.user_agent,
        }
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._idle: deque[AsyncConnection] = deque()

    async def send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Response:
        """Sends a request over a free connection, or over a new one. `NoAnswer` leaves unknown whether it took effect."""
        request = self._request(method, path, body, headers)
        try:
            return await asyncio.wait_for(self._send(method, request), timeout)
        except asyncio.TimeoutError as error:
            raise NoAnswer(f"no answer to {method} {path} within {timeout:g} s") from error
        except _FAILURES as error:
            raise NoAnswer(f"no answer to {method} {path}: {error or type(error).__name__}") from error

    async def _send(self, method: str, request: bytes) -> Response:
        connection = await self._take()
        try:
            response = await connection.exchange(method, request)
        except BaseException:
            # Also if the caller was cancelled: half an exchange cannot be continued.
            connection.close()
            raise
        if connection.is_fresh and len(self._idle) < IDLE_CONNECTIONS_MAX:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    def _request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        sent = {**self._headers, **headers}
        if body is not None:
            sent["content-type"] = "application/json"
        if body is not None or method in ("POST", "PUT"):
            sent["content-length"] = str(len(body or b""))
        lines = [f"{method} {self._address.base_path}{path} HTTP/1.1"]
        for name, value in sent.items():
            if any(c in value for c in "\r\n\0"):
                raise ValueError(f"the header {name} must be one line")
            lines.append(f"{name}: {value}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")

    async def _take(self) -> AsyncConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                return connection
            connection.close()
        host, port = self._address.host, self._address.port
        opened = await asyncio.open_connection(host, port, ssl=self._context, limit=_HEAD_BYTES_MAX)
        return AsyncConnection(*opened)

    def close(self) -> None:
        """Closes the idle connections."""
        while self._idle:
            self._idle.pop().close()
