"""When a request is sent again."""

from __future__ import annotations

import random
import time

from lineclear.errors import NoAnswer, Unavailable
from lineclear.transport import Response

FIRST_DELAY = 0.1
DELAY_MAX = 5.0
RETRY_AFTER_MAX = 60.0
_AGAIN = frozenset((429, 502, 503, 504))


class Backoff:
    """Delays that double, with jitter, so that clients of a server that returns do not all come at once."""

    def __init__(self, first: float = FIRST_DELAY, longest: float = DELAY_MAX) -> None:
        self._first = first
        self._next = first
        self._longest = longest

    def reset(self) -> None:
        """Begins anew, after a success."""
        self._next = self._first

    def next(self, asked: float | None = None) -> float:
        """The next delay, or the one that the server asked for."""
        delay = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._next * 2, self._longest)
        return max(delay, min(asked, RETRY_AFTER_MAX)) if asked is not None else delay


def is_transient(response: Response) -> bool:
    """Whether the same request may be answered otherwise in a moment."""
    if response.status in _AGAIN:
        return True
    return response.status == 409 and response.error().code == "idempotency_in_flight"


def retry_after(response: Response) -> float | None:
    """The header `Retry-After`, in seconds."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


class Attempts:
    """Counts down the time for retries of one call."""

    def __init__(self, retry_for: float) -> None:
        self._until = time.monotonic() + retry_for
        self._backoff = Backoff()

    def delay_after(self, failure: Response | NoAnswer) -> float:
        """How long to wait before the next attempt. Raises when there is none."""
        asked = retry_after(failure) if isinstance(failure, Response) else None
        delay = self._backoff.next(asked)
        if time.monotonic() + delay > self._until:
            if isinstance(failure, Response):
                raise Unavailable(str(failure.error())) from failure.error()
            raise Unavailable(str(failure)) from failure
        return delay
