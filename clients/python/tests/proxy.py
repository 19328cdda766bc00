"""A proxy that loses answers: the server has done what it was asked, and the client does not learn of it."""

from __future__ import annotations

import re
import socket
import threading

_REQUEST = re.compile(rb"^([A-Z]+) (\S+) HTTP/1\.1\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class CuttingProxy:
    """Forwards whole requests and whole answers, except those answers that it is told to cut."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._cuts: list[tuple[str, str, bytes]] = []
        #: Answers that were cut, as `POST /path`.
        self.cut: list[str] = []
        #: Requests that were forwarded.
        self.seen: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut_next(self, method: str, path: str, times: int = 1, containing: bytes = b"") -> None:
        """Cuts the next answers to such requests that contain this."""
        with self._lock:
            self._cuts += [(method, path, containing)] * times

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        try:
            while True:
                head, body = _message(client)
                found = _REQUEST.match(head)
                if found is None:
                    return
                request = f"{found[1].decode()} {found[2].decode()}"
                server = server or socket.create_connection(self._target)
                server.sendall(head + body)
                with self._lock:
                    self.seen.append(request)
                # A poll waits in the server until its client is gone, so watch for that.
                threading.Thread(target=_pass_on_the_end, args=(client, server), daemon=True).start()
                answer_head, answer_body = _message(server)
                if not answer_head:
                    return
                if self._is_to_be_cut(request, answer_body):
                    return
                client.sendall(answer_head + answer_body)
        except OSError:
            return
        finally:
            # Another thread may still read from them: closing alone would not end the connections.
            for one in (client, server):
                if one is not None:
                    _end(one)

    def _is_to_be_cut(self, request: str, answer: bytes) -> bool:
        method, path = request.split("?")[0].split(" ")
        with self._lock:
            for cut in self._cuts:
                if cut[:2] == (method, path) and cut[2] in answer:
                    self._cuts.remove(cut)
                    self.cut.append(request)
                    return True
        return False


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


def _pass_on_the_end(client: socket.socket, server: socket.socket) -> None:
    """Closes the way to the server when the client has gone away in the middle of a request."""
    try:
        if client.recv(1, socket.MSG_PEEK) == b"":
            server.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _message(source: socket.socket) -> tuple[bytes, bytes]:
    """A request or an answer: its head and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = source.recv(65536)
        if not more:
            return b"", b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    head += b"\r\n\r\n"
    found = _LENGTH.search(head)
    length = int(found[1]) if found else 0
    while len(body) < length:
        more = source.recv(65536)
        if not more:
            return b"", b""
        body += more
    return head, body
