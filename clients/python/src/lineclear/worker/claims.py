"""The claims that a worker holds: from the answer of a poll until their outcome is recorded, or they are lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import Any, Iterable, Mapping

from lineclear.worker.handlers import Handler
from lineclear.worker.job import Channel, Job
from lineclear.worker.outcome import Outcome

#: How long a handler that was told to stop may take.
STOP_SECONDS = 5.0
#: The server takes so many claims in one call.
HELD_MAX = 1_000


def trusted_until(asked_at: float, lease: float) -> float:
    """How long a lease of a request of this moment surely lasts. Clocks may differ in their speed a little."""
    return asked_at + lease * 0.9


class Claim:
    """One job, from its claim to its settlement. Times are of the monotonic clock."""

    __slots__ = (
        "job", "key", "handler", "lease", "renewed_at", "renew_at", "time_out_at", "abandon_at", "is_over", "outcome", "task", "loop",
    )  # fmt: skip

    def __init__(self, raw: Mapping[str, Any], handler: Handler, channel: Channel, renewed_at: float) -> None:
        claim = raw["claim"]
        timeout = claim.get("timeout_ms")
        self.job = Job(raw["job"], claim["no"], timeout / 1000 if timeout else None, channel)
        self.key = (self.job.id, self.job.claim_no)
        self.handler = handler
        self.lease: float = claim["lease_ms"] / 1000
        #: When the request was sent that was answered with this lease: it began then, or later.
        self.renewed_at = renewed_at
        self.renew_at = renewed_at + self.lease / 3
        #: When its handler must stop, once it has begun.
        self.time_out_at: float | None = None
        #: When a handler that was told to stop is given up.
        self.abandon_at: float | None = None
        #: Whether the handler has ended, or was given up.
        self.is_over = False
        self.outcome: Outcome | None = None
        self.task: asyncio.Task[Outcome | None] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def trusted_until(self) -> float:
        """From this moment on the lease may have ended."""
        return trusted_until(self.renewed_at, self.lease)

    def begin(self) -> None:
        """Starts the clock of the handler."""
        if self.job.timeout is not None:
            self.time_out_at = time.monotonic() + self.job.timeout

    def tell(self, reason: str) -> None:
        """Tells the handler to stop. From now on it has five seconds."""
        self.job.stop(reason)
        if self.abandon_at is None:
            self.abandon_at = time.monotonic() + STOP_SECONDS
        if self.loop is not None and self.task is not None:
            try:
                self.loop.call_soon_threadsafe(self.task.cancel)
            except RuntimeError:
                # The loop is closed, and the task with it.
                pass


class Claims:
    """All claims of a worker, and how many slots they leave free."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._held: dict[tuple[str, int], Claim] = {}
        #: Claims whose handlers occupy a slot. One that was given up still does, as long as its thread runs.
        self._active = 0
        self._lost: deque[tuple[str, int]] = deque(maxlen=HELD_MAX)
        self._waiting = False

    def add(self, claims: Iterable[Claim]) -> list[Claim]:
        """Takes up claims, without those that it has already."""
        with self._lock:
            new = [claim for claim in claims if claim.key not in self._held]
            self._held.update((claim.key, claim) for claim in new)
            self._active += len(new)
        return new

    def end(self, claim: Claim, outcome: Outcome | None) -> bool:
        """The handler has ended. False if it was given up before: its outcome does not count."""
        with self._lock:
            self._active -= 1
            if self._waiting:
                self._changed.notify_all()
            return self._finish(claim, outcome)

    def abandon(self, claim: Claim, outcome: Outcome | None) -> bool:
        """Gives a handler up that did not stop. False if it has just ended by itself."""
        with self._lock:
            return self._finish(claim, outcome)

    @staticmethod
    def _finish(claim: Claim, outcome: Outcome | None) -> bool:
        if claim.is_over:
            return False
        claim.is_over = True
        claim.outcome = outcome
        return True

    def forget(self, keys: Iterable[tuple[str, int]]) -> None:
        """Lets go of claims that are settled or lost."""
        with self._lock:
            for key in keys:
                self._held.pop(key, None)
            if self._waiting:
                self._changed.notify_all()

    def lose(self, claim: Claim) -> None:
        """Lets go of a claim whose handler may still run."""
        with self._lock:
            if self._held.pop(claim.key, None) is not None:
                self._lost.append(claim.key)
            if self._waiting:
                self._changed.notify_all()

    def known(self) -> list[tuple[str, int]]:
        """The claims that the server need not give out again: those that it holds, and those that it lost.

        A lost claim must not begin again under the same number: its first handler may still run.
        """
        with self._lock:
            return [*self._held, *self._lost][:HELD_MAX]

    def get(self, job_id: str, claim_no: int) -> Claim | None:
        """A claim that it holds."""
        return self._held.get((job_id, claim_no))

    def held(self) -> list[Claim]:
        """All of them."""
        with self._lock:
            return list(self._held.values())

    @property
    def active(self) -> int:
        """How many handlers run."""
        return self._active

    def wait_for_slots(self, wanted: int, timeout: float) -> int:
        """Waits until so many slots are free, and returns how many are.

        Slots of jobs whose results cannot be recorded become free, too, but not without bound.
        """
        with self._changed:
            self._waiting = True
            self._changed.wait_for(lambda: self._free() >= wanted, timeout)
            self._waiting = False
            return self._free()

    def _free(self) -> int:
        held_max = max(self.slots, min(3 * self.slots, HELD_MAX))
        return max(0, min(self.slots - self._active, held_max - len(self._held)))

    def wait_until_idle(self, timeout: float) -> bool:
        """Waits until no claim is held whose handler runs."""
        with self._changed:
            self._waiting = True
            return self._changed.wait_for(lambda: all(claim.is_over for claim in self._held.values()), timeout)
