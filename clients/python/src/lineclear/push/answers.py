"""Answers to requests that were answered before: a request that is sent again does not run its job again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass

from lineclear.push.signature import WINDOW_SECONDS

#: Answers that are remembered, of up to 64 KiB each. A request is repeated soon, or not at all.
ANSWERS_MAX = 1_000

#: How long they are remembered: a request can be repeated from one end of the window of signatures to the other.
KEPT_SECONDS = 2 * WINDOW_SECONDS + 60


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)


class Answers:
    """The latest answers of this process, by the id of the request."""

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        self._kept_seconds = kept_seconds
        self._lock = threading.Lock()
        self._by_id: OrderedDict[str, Future[Answer]] = OrderedDict()
        # When answers were found, in this order; requests that are being answered are not among them.
        self._answered_at: OrderedDict[str, float] = OrderedDict()

    def begin(self, request_id: str) -> tuple[Future[Answer], bool]:
        """The answer, which may not be there yet, and whether the caller must find it."""
        with self._lock:
            self._sweep()
            found = self._by_id.get(request_id)
            if found is not None:
                return found, False
            made: Future[Answer] = Future()
            made.add_done_callback(lambda done: self._note(request_id, done))
            self._by_id[request_id] = made
            while len(self._by_id) > ANSWERS_MAX:
                oldest, _ = self._by_id.popitem(last=False)
                self._answered_at.pop(oldest, None)
            return made, True

    def forget(self, request_id: str) -> None:
        """The request did not run: it may come again."""
        with self._lock:
            self._by_id.pop(request_id, None)

    def _note(self, request_id: str, done: Future[Answer]) -> None:
        with self._lock:
            if self._by_id.get(request_id) is done:
                self._answered_at[request_id] = time.monotonic()

    def _sweep(self) -> None:
        """Forgets answers that no request can ask for any more."""
        while self._answered_at:
            request_id, answered_at = next(iter(self._answered_at.items()))
            if time.monotonic() - answered_at < self._kept_seconds:
                return
            del self._answered_at[request_id]
            del self._by_id[request_id]
