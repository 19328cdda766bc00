"""HTTP over kept-alive connections of the standard library, for threads."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Mapping

from lineclear import encoding
from lineclear.address import Address
from lineclear.errors import ApiError, NoAnswer, NotFound

#: The server closes a connection after 60 s without a request: do not begin one on a connection that may be closing.
IDLE_SECONDS_MAX = 50.0
#: Connections that are kept for later.
IDLE_CONNECTIONS_MAX = 16
#: An answer longer than this is refused. A page of 1,000 jobs with inputs is shorter.
ANSWER_BYTES_MAX = 512 * 1024 * 1024


@dataclass(frozen=True)
class Response:
    """A whole answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """The body, read as JSON."""
        try:
            return encoding.loads(self.body)
        except ValueError as error:
            raise NoAnswer(f"the answer is no JSON, so it is not of a Lineclear server: {error}") from error

    def error(self) -> ApiError:
        """The problem that the server describes."""
        problem: Any = None
        if "json" in self.headers.get("content-type", ""):
            try:
                problem = encoding.loads(self.body)
            except ValueError:
                pass
        if not isinstance(problem, dict):
            problem = {}
        code = str(problem.get("code", f"http_{self.status}"))
        detail = str(problem.get("detail") or self.body[:200].decode(errors="replace"))
        kind = NotFound if self.status == 404 else ApiError
        return kind(self.status, code, detail, problem)


class Connection:
    """One kept-alive connection. One thread at a time sends; any thread may abort."""

    def __init__(self, address: Address, token: str | None, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._headers = {"accept": "application/json", "user-agent": address.user_agent}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._context = context
        self._open: http.client.HTTPConnection | None = None
        self._used_at = 0.0
        self._lock = threading.Lock()
        self._aborted = False

    def send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Response:
        """Sends a request, and reads the whole answer. `NoAnswer` leaves unknown whether it took effect."""
        sent = {**self._headers, **headers}
        if body is not None:
            sent["content-type"] = "application/json"
        try:
            connection = self._connection(timeout)
            connection.request(method, self._address.base_path + path, body, sent)
            answer = connection.getresponse()
            received = answer.read(ANSWER_BYTES_MAX)
            if not answer.isclosed():
                raise NoAnswer(f"the answer to {method} {path} is longer than {ANSWER_BYTES_MAX} bytes")
        except (OSError, http.client.HTTPException, NoAnswer) as error:
            self.close()
            if isinstance(error, NoAnswer):
                raise
            raise NoAnswer(f"no answer to {method} {path}: {error or type(error).__name__}") from error
        except BaseException:
            # Such as an interrupt of the program: half an exchange cannot be continued.
            self.close()
            raise
        self._used_at = time.monotonic()
        if answer.will_close:
            self.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, found, received)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._open is not None and time.monotonic() - self._used_at > IDLE_SECONDS_MAX:
            self.close()
        if self._open is None:
            host, port = self._address.host, self._address.port
            made: http.client.HTTPConnection
            if self._address.tls:
                made = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._context)
            else:
                made = http.client.HTTPConnection(host, port, timeout=timeout)
            made.connect()
            made.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            with self._lock:
                if self._aborted:
                    made.close()
                    raise NoAnswer("the connection was aborted")
                self._open = made
        self._open.sock.settimeout(timeout)
        return self._open

    def abort(self) -> None:
        """Ends the exchange of another thread, which gets `NoAnswer`, and all later ones."""
        with self._lock:
            self._aborted = True
            if self._open is not None and self._open.sock is not None:
                try:
                    self._open.sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self) -> None:
        """Closes the connection. The next request opens a new one."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    @property
    def idle_seconds(self) -> float:
        """The time since the last answer."""
        return time.monotonic() - self._used_at


class Pool:
    """Connections for any number of threads: one for each request at a time."""

    def __init__(self, address: Address, token: str | None, context: ssl.SSLContext | None) -> None:
        self._made_with = (address, token, context)
        self._idle: deque[Connection] = deque()

    def send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Response:
        """Sends a request over a free connection, or over a new one."""
        connection = self._take()
        try:
            return connection.send(method, path, body, headers, timeout)
        finally:
            if len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append(connection)
            else:
                connection.close()

    def _take(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return Connection(*self._made_with)

    def close(self) -> None:
        """Closes the idle connections."""
        while self._idle:
            self._take().close()
