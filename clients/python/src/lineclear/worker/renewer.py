"""Renews leases, in a thread of its own: a handler that blocks the event loop keeps its job."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, Mapping

from lineclear.errors import ApiError, NoAnswer
from lineclear.retry import Backoff
from lineclear.worker.api import CLAIMS_MAX, ClaimsApi
from lineclear.worker.claims import Claim, Claims
from lineclear.worker.clock import Clock
from lineclear.worker.timer import Timer

log = logging.getLogger("lineclear.worker")


class Renewer(Timer):
    """A thread that renews all leases together, three times in the length of one."""

    def __init__(self, api: ClaimsApi, claims: Claims, clock: Clock, drain: Callable[[bool], None]) -> None:
        super().__init__("lineclear-renewer")
        self._api = api
        self._claims = claims
        self._clock = clock
        self._drain = drain
        self._backoff = Backoff(longest=2.0)

    def due(self) -> None:
        """Renews what is due, and what is due soon: one call, and not many."""
        held = self._claims.held()
        now = time.monotonic()
        if any(claim.renew_at <= now for claim in held):
            due = [claim for claim in held if claim.renew_at - claim.lease / 6 <= now]
            for start in range(0, len(due), CLAIMS_MAX):
                self._renew(due[start : start + CLAIMS_MAX])
        for claim in held:
            self.wake_by(claim.renew_at)

    def _renew(self, claims: list[Claim]) -> None:
        by_key = {claim.key: claim for claim in claims}
        lease = min(claim.lease for claim in claims)
        sent_at = time.monotonic()
        try:
            answer = self._api.renew(list(by_key), timeout=min(max(lease / 3, 0.5), 10.0))
        except (NoAnswer, ApiError) as error:
            again_at = time.monotonic() + min(self._backoff.next(), lease / 10)
            log.warning("leases of %d jobs could not be renewed, and are tried again: %s", len(claims), error)
            for claim in claims:
                claim.renew_at = again_at
            return
        self._backoff.reset()
        self._drain(bool(answer.get("drain")))
        lease = answer.get("lease_ms", lease * 1000) / 1000
        for item in answer["claims"]:
            found = by_key.get((item["job"], item["no"]))
            if found is not None:
                self._note(found, item, sent_at, lease)

    def _note(self, claim: Claim, item: Mapping[str, Any], sent_at: float, lease: float) -> None:
        if item["status"] == "renewed":
            claim.lease = lease
            # From the moment of the request: the answer may have been slow.
            claim.renewed_at = sent_at
            claim.renew_at = sent_at + lease / 3
        elif item["status"] == "stale_claim":
            claim.renew_at = float("inf")
            if not claim.is_over:
                self._clock.lose(claim, "the server says that its claim has ended")
        else:
            # Another transaction holds its row.
            claim.renew_at = time.monotonic() + lease / 10
        if item.get("cancel") and not claim.job.cancelled:
            self._clock.tell(claim, "cancelled")
