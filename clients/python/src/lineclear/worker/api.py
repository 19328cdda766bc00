"""The calls of a worker: claims, and what follows them."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any, Mapping, Protocol, Sequence

from lineclear import encoding
from lineclear.errors import NoAnswer
from lineclear.retry import is_transient, retry_after
from lineclear.transport import Response
from lineclear.version import __version__

#: The most claims, or steps, in one call.
CLAIMS_MAX = 1_000


class Sender(Protocol):
    """A connection, or a pool of them."""

    def send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Response: ...


class Busy(NoAnswer):
    """The server answered that it cannot answer now: it stops or drains, its database is away, or there are too many requests."""

    def __init__(self, response: Response) -> None:
        super().__init__(str(response.error()))
        self.retry_after = retry_after(response)


@dataclass(frozen=True)
class Identity:
    """A worker, as the server knows it. The id is new for each start."""

    id: str
    name: str

    def describe(self) -> dict[str, Any]:
        """The worker in JSON."""
        return {
            "id": self.id,
            "name": self.name,
            "host": socket.gethostname()[:128] or "unknown",
            "pid": os.getpid(),
            "version": f"lineclear-python/{__version__}",
        }


class ClaimsApi:
    """The calls, over one connection or pool. Raises `NoAnswer`, `Busy` and `ApiError`."""

    def __init__(self, sender: Sender, identity: Identity) -> None:
        self._sender = sender
        self._identity = identity

    def claim(
        self, kinds: Sequence[str], slots: int, wait_ms: int, held: Sequence[tuple[str, int]] | None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Waits for jobs, and tells whether an operator drains this worker. With `held`, the claims begin with those of a lost answer that are not among these."""
        body = {
            "worker": self._identity.describe(),
            "kinds": list(kinds),
            "slots": slots,
            "wait_ms": wait_ms,
            "resume": held is not None,
            "held": [{"job": job, "no": no} for job, no in held or ()],
        }
        answer = self._post("/api/v1/claims", encoding.dumps(body), timeout=wait_ms / 1000 + 10.0)
        claims: list[dict[str, Any]] = answer["claims"]
        return claims, bool(answer["worker"].get("drain"))

    def renew(self, claims: Sequence[tuple[str, int]], timeout: float) -> dict[str, Any]:
        """Extends leases."""
        return self._batch("renew", "claims", [{"job": job, "no": no} for job, no in claims], timeout)

    def progress(self, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Reports how far jobs are."""
        return self._batch("progress", "claims", items)

    def logs(self, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Adds lines to logs."""
        return self._batch("logs", "claims", items)

    def steps(self, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Records steps."""
        return self._batch("steps", "steps", items)

    def read_steps(self, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Reads steps of earlier claims."""
        return self._batch("steps/read", "steps", items)

    def settle(self, items: Sequence[bytes]) -> list[dict[str, Any]]:
        """Records outcomes, each encoded before, and returns their statuses."""
        worker = encoding.dumps(self._identity.id)
        body = b'{"worker":' + worker + b',"claims":[' + b",".join(items) + b"]}"
        response = self._send("POST", "/api/v1/claims/settle", body, 30.0)
        answer = response.json() if response.status in (200, 409) else {}
        # 409 if every claim of the batch is stale: its body has the same list.
        if not isinstance(answer, dict) or not isinstance(answer.get("claims"), list):
            raise response.error()
        claims: list[dict[str, Any]] = answer["claims"]
        return claims

    def leave(self) -> None:
        """Ends the worker. The server releases what it still holds."""
        response = self._send("DELETE", f"/api/v1/workers/{self._identity.id}", None, 5.0)
        if response.status not in (204, 404):
            raise response.error()

    def _batch(
        self, verb: str, name: str, items: Sequence[Mapping[str, Any]], timeout: float = 30.0
    ) -> dict[str, Any]:
        body = encoding.dumps({"worker": self._identity.id, name: items})
        return self._post(f"/api/v1/claims/{verb}", body, timeout)

    def _post(self, path: str, body: bytes, timeout: float) -> dict[str, Any]:
        response = self._send("POST", path, body, timeout)
        if response.status == 409:
            answer = response.json()
            if isinstance(answer, dict) and isinstance(answer.get("claims", answer.get("steps")), list):
                return answer
        if response.status != 200:
            raise response.error()
        answer = response.json()
        if not isinstance(answer, dict):
            raise NoAnswer("the answer is not of a Lineclear server")
        return answer

    def _send(self, method: str, path: str, body: bytes | None, timeout: float) -> Response:
        response = self._sender.send(method, path, body, {}, timeout)
        if is_transient(response):
            raise Busy(response)
        return response
