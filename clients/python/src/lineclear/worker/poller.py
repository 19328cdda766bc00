"""Asks the server for jobs."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable, Sequence

from lineclear.errors import ApiError, NoAnswer
from lineclear.retry import Backoff
from lineclear.worker.api import CLAIMS_MAX, Busy, ClaimsApi
from lineclear.worker.claims import Claims

log = logging.getLogger("lineclear.worker")

#: How long a poll that could ask for more waits for further slots, so that short jobs come in batches.
GATHER_SECONDS = 0.005
BACKOFF_SECONDS_MAX = 10.0
#: The length of a lease, until the server says it.
LEASE_SECONDS = 30.0
#: How often a worker that drains asks whether it still should.
DRAIN_CHECK_SECONDS = 5.0


class Poller:
    """A thread with one long poll at a time."""

    def __init__(
        self,
        api: ClaimsApi,
        claims: Claims,
        kinds: Sequence[str],
        wait: float,
        take: Callable[[list[dict[str, Any]], float], bool],
        fail: Callable[[ApiError], None],
    ) -> None:
        self._api = api
        self._claims = claims
        self._kinds = kinds
        self._wait_ms = round(wait * 1000)
        self._take = take
        self._fail = fail
        self._stop = threading.Event()
        #: Whether the server has answered a poll.
        self.has_polled = False
        self._lease = LEASE_SECONDS
        self._is_asking = False
        #: An answer was lost. Until this moment the server may have given claims to this worker that it does not know of: the old poll
        #: may wait on, and get some after the next one was answered.
        self._resume_until = 0.0
        #: Whether an operator drains this worker: it takes no more jobs until it is resumed.
        self.is_draining = False
        self._thread = threading.Thread(target=self._run, name="lineclear-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops polling. The caller aborts the connection, so that a poll under way ends."""
        self._stop.set()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    @property
    def is_answer_lost(self) -> bool:
        """Whether the server may have given out claims that the worker does not know of."""
        return self._is_asking or time.monotonic() < self._resume_until

    def expect_lost_claims(self, wait: float = 0.0) -> None:
        """The server may have given out claims, or does so within `wait` seconds: the next polls ask for them."""
        self._resume_until = max(self._resume_until, time.monotonic() + wait + self._lease)

    def _run(self) -> None:
        backoff = Backoff(longest=BACKOFF_SECONDS_MAX)
        while not self._stop.is_set():
            try:
                self._poll()
                backoff.reset()
            except NoAnswer as error:
                self._lose_answer()
                if not self._stop.is_set():
                    log.warning("no jobs could be asked for, and are asked for again: %s", error)
                    self._stop.wait(backoff.next(getattr(error, "retry_after", None)))
            except ApiError as error:
                self._is_asking = False
                if not self.has_polled and error.status < 500:
                    # A wrong token, or a kind that is not for this worker: people must do something.
                    self._fail(error)
                    return
                log.error("the server refused to give out jobs: %s", error)
                self._stop.wait(backoff.next())
            except Exception:
                # A defect, or an answer that is not of a Lineclear server.
                self._lose_answer()
                log.exception("the answer with jobs could not be read, and is asked for again")
                self._stop.wait(backoff.next())

    def drain(self, is_draining: bool) -> None:
        """The server says whether an operator drains this worker."""
        if is_draining != self.is_draining:
            log.info("the worker %s", "drains: it takes no more jobs" if is_draining else "takes jobs again")
            self.is_draining = is_draining

    def _poll(self) -> None:
        if self.is_draining:
            if not self._stop.wait(DRAIN_CHECK_SECONDS):
                # It may hold no claim whose renewal would tell.
                self.drain(bool(self._api.renew([], timeout=10.0).get("drain")))
            return
        free = self._free_slots()
        if not free:
            return
        held = self._claims.known() if self.is_answer_lost else None
        self._is_asking = True
        asked_at = time.monotonic()
        found, is_draining = self._api.claim(self._kinds, free, self._wait_ms, held)
        if found:
            self._lease = found[0]["claim"]["lease_ms"] / 1000
            if not self._take(found, asked_at):
                self.expect_lost_claims()
        self.drain(is_draining)
        self._is_asking = False
        self.has_polled = True

    def _lose_answer(self) -> None:
        if self._is_asking:
            self._is_asking = False
            self.expect_lost_claims(self._wait_ms / 1000)

    def _free_slots(self) -> int:
        free = self._claims.wait_for_slots(1, 1.0)
        if 0 < free < self._claims.slots:
            free = self._claims.wait_for_slots(self._claims.slots, GATHER_SECONDS)
        return min(free, CLAIMS_MAX)


def claims_of_lost_answer(api: ClaimsApi, claims: Claims, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """What the server gave out in an answer that was lost. There may be a new claim among them: a poll asks for one at least."""
    until = time.monotonic() + 5.0
    backoff = Backoff()
    while True:
        try:
            return api.claim(kinds, 1, 0, claims.known())[0]
        except Busy:
            # It stops, and gives nothing out.
            return []
        except NoAnswer:
            if time.monotonic() > until:
                return []
            time.sleep(backoff.next())
        except ApiError:
            return []
