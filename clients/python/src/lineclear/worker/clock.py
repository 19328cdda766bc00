"""Tells handlers to stop whose time is over or whose lease may have ended, and gives up those that do not stop."""

from __future__ import annotations

import logging
import time
from typing import Callable

from lineclear.worker import outcome
from lineclear.worker.claims import Claim, Claims
from lineclear.worker.timer import Timer

log = logging.getLogger("lineclear.worker")


class Clock(Timer):
    """A thread that wakes at the next moment at which a handler must stop."""

    def __init__(self, claims: Claims, settle: Callable[[Claim], None]) -> None:
        super().__init__("lineclear-clock")
        self._claims = claims
        self._settle = settle

    def lose(self, claim: Claim, why: str) -> None:
        """Tells a handler that its claim is lost. Nothing more is sent for it."""
        self._claims.lose(claim)
        if not claim.is_over:
            log.warning("job %s (claim %d) is lost: %s", *claim.key, why)
            claim.tell("lost")

    def tell(self, claim: Claim, reason: str) -> None:
        """Tells a handler to stop."""
        claim.tell(reason)
        if claim.abandon_at is not None:
            self.wake_by(claim.abandon_at)

    def due(self) -> None:
        """Looks at every handler that runs."""
        for claim in self._claims.held():
            if not claim.is_over:
                self._look_at(claim, time.monotonic())

    def _look_at(self, claim: Claim, now: float) -> None:
        if claim.trusted_until <= now:
            self.lose(claim, "its lease could not be renewed in time")
            return
        if claim.time_out_at is not None and claim.time_out_at <= now and not claim.job.cancelled:
            claim.tell("timed_out")
        if claim.abandon_at is not None and claim.abandon_at <= now:
            if self._claims.abandon(claim, outcome.stopped(claim.job)):
                log.warning("the handler of job %s (claim %d) did not stop, and goes on without its job", *claim.key)
                self._settle(claim)
            return
        self.wake_by(claim.trusted_until)
        if claim.abandon_at is not None:
            self.wake_by(claim.abandon_at)
        elif claim.time_out_at is not None:
            self.wake_by(claim.time_out_at)
        elif claim.job.timeout is not None:
            # It waits for its thread. Its time begins with the handler.
            self.wake_by(now + claim.job.timeout)
