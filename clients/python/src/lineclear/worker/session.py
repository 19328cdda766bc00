"""One life of a worker: from its first poll until it leaves."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
import uuid
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Callable

from lineclear.address import Address
from lineclear.errors import ApiError, NoAnswer
from lineclear.retry import Backoff
from lineclear.transport import Connection, Pool
from lineclear.worker import late, outcome, poller
from lineclear.worker.api import ClaimsApi, Identity
from lineclear.worker.claims import STOP_SECONDS, Claim, Claims
from lineclear.worker.clock import Clock
from lineclear.worker.handlers import Handlers
from lineclear.worker.job import Job
from lineclear.worker.outcome import Outcome
from lineclear.worker.poller import Poller
from lineclear.worker.renewer import Renewer
from lineclear.worker.reporter import Reporter
from lineclear.worker.slots import SlotThreads, start_coroutines
from lineclear.worker.steps import Steps

log = logging.getLogger("lineclear.worker")

#: How long the last results may take to be sent when a worker stops.
LAST_RESULTS_SECONDS = 10.0


@dataclass(frozen=True)
class Settings:
    """How a worker was made."""

    address: Address
    token: str | None
    context: ssl.SSLContext | None
    name: str
    slots: int
    grace: float
    wait: float


class Session:
    """The threads of a worker, and its claims."""

    def __init__(
        self,
        settings: Settings,
        handlers: Handlers,
        stop_requests: SimpleQueue[float | None | ApiError],
        loop: asyncio.AbstractEventLoop,
        over: Callable[[ApiError | None], object],
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._stop_requests = stop_requests
        self._loop = loop
        self._over = over
        made = (settings.address, settings.token, settings.context)
        identity = Identity(str(uuid.uuid4()), settings.name)
        self._connections = [Connection(*made) for _ in range(3)]
        self._poll_connection, results, renewals = self._connections
        self._pool = Pool(*made)
        self._api = ClaimsApi(self._pool, identity)
        self._claims = Claims(settings.slots)
        self._reporter = Reporter(ClaimsApi(results, identity), self._claims)
        self._clock = Clock(self._claims, self._reporter.settle)
        self._reporter.clock = self._clock
        self._steps = Steps(self._api, self._claims, self._clock)
        self._threads = SlotThreads(self._ended)
        polls = ClaimsApi(self._poll_connection, identity)
        self._poller = Poller(polls, self._claims, handlers.kinds, settings.wait, self._take, stop_requests.put)
        self._renewer = Renewer(ClaimsApi(renewals, identity), self._claims, self._clock, self._poller.drain)

    def live(self) -> None:
        """Works until a request to stop, and stops."""
        error: ApiError | None = None
        self._reporter.start()
        self._clock.start()
        self._renewer.start()
        self._poller.start()
        try:
            request = self._stop_requests.get()
            error = request if isinstance(request, ApiError) else None
            grace = request if isinstance(request, float) else self._settings.grace
            self._stop(grace)
        except Exception as unexpected:
            log.exception("the worker could not stop in order: %s", unexpected)
        finally:
            while not self._stop_requests.empty():
                # A second signal, too, was for this life.
                self._stop_requests.get()
            self._over(error)

    # Jobs

    def _take(self, found: list[dict[str, Any]], asked_at: float) -> bool:
        """Starts the handlers of claims, for which a request of this moment asked. False: some are to be asked for again."""
        if self._poller.is_draining:
            # They came by a poll from before.
            self._release(found)
            return True
        lease = found[0]["claim"]["lease_ms"] / 1000
        renewed = late.Renewed(found, set(), asked_at, True)
        if late.is_late(asked_at, lease):
            # Others may have the jobs: the answer waited in a process that was stopped, or the request waited for long.
            try:
                renewed = late.renew(self._api, found, lease)
            except (NoAnswer, ApiError) as error:
                log.warning("%d jobs came late, and could not be renewed: %s", len(found), error)
                return False
        self._start(renewed)
        return renewed.is_complete

    def _start(self, renewed: late.Renewed) -> None:
        claims, strange = [], []
        for raw in renewed.claims:
            handler = self._handlers.get(raw["job"]["kind"])
            if handler is None:
                strange.append(raw)
                continue
            claim = Claim(raw, handler, self, renewed.at)
            if claim.key in renewed.cancelled:
                # Its handler does not begin.
                claim.tell("cancelled")
            claims.append(claim)
        self._release(strange)
        new = self._claims.add(claims)
        if not new:
            return
        self._renewer.wake_by(min(claim.renew_at for claim in new))
        now = time.monotonic()
        self._clock.wake_by(min(min(c.trusted_until, now + (c.job.timeout or c.lease)) for c in new))
        coroutines = [claim for claim in new if claim.handler.is_async]
        functions = [claim for claim in new if not claim.handler.is_async]
        if functions:
            self._threads.start(functions, min(self._claims.active, self._settings.slots))
        if coroutines:
            self._loop.call_soon_threadsafe(start_coroutines, coroutines, self._ended)

    def _ended(self, claim: Claim, result: Outcome | None) -> None:
        """A handler has ended."""
        if not self._claims.end(claim, result):
            return
        if result is None or claim.job.lost:
            self._claims.forget([claim.key])
        else:
            self._reporter.settle(claim)

    def _release(self, found: list[dict[str, Any]]) -> None:
        """Gives claims back unstarted."""
        if not found:
            return
        items = [
            b'{"job":"%s","no":%d,' % (raw["job"]["id"].encode(), raw["claim"]["no"]) + outcome.RELEASED[1:]
            for raw in found
        ]
        try:
            self._api.settle(items)
        except (NoAnswer, ApiError) as error:
            log.warning("%d jobs could not be released, and wait for the end of their lease: %s", len(found), error)

    # What handlers report

    def changed(self, job: Job) -> None:
        self._reporter.changed(job)

    def read_step(self, job: Job, name: str) -> tuple[bool, Any]:
        return self._steps.read(job, name)

    def write_step(self, job: Job, step: dict[str, Any]) -> None:
        self._steps.write(job, step)

    # The end

    def _stop(self, grace: float) -> None:
        log.info("the worker stops; %d jobs run", self._claims.active)
        ends_at = time.monotonic() + grace
        self._poller.stop()
        self._poll_connection.abort()
        self._poller.join(5.0)
        if self._claims.active and self._poller.is_answer_lost:
            # Otherwise they would wait for the end of the grace, or of their lease.
            lost = poller.claims_of_lost_answer(self._api, self._claims, self._handlers.kinds)
            self._release(lost)
        if not self._wait_until_idle(ends_at - min(STOP_SECONDS, grace / 2)):
            ends_at = time.monotonic()
        for claim in self._claims.held():
            if not claim.is_over:
                self._clock.tell(claim, "shutdown")
        self._wait_until_idle(max(ends_at, time.monotonic() + 0.5))
        for claim in self._claims.held():
            if self._claims.abandon(claim, outcome.stopped(claim.job)):
                log.warning("the handler of job %s (claim %d) did not stop in time; its job is released", *claim.key)
                self._reporter.settle(claim)
        self._reporter.stop(LAST_RESULTS_SECONDS)
        self._renewer.stop()
        self._clock.stop()
        self._threads.stop()
        if self._poller.has_polled or self._poller.is_answer_lost:
            self._leave()
        self._pool.close()
        for connection in self._connections:
            connection.close()

    def _wait_until_idle(self, until: float) -> bool:
        """Waits until no handler runs, or until a moment. False: there was a request to stop now."""
        while (left := until - time.monotonic()) > 0:
            if self._claims.wait_until_idle(min(left, 0.2)):
                break
            try:
                request = self._stop_requests.get_nowait()
            except Empty:
                continue
            if isinstance(request, float) and request <= 0:
                return False
        return True

    def _leave(self) -> None:
        backoff = Backoff()
        until = time.monotonic() + 5.0
        while True:
            try:
                return self._api.leave()
            except ApiError as error:
                log.warning("the server refused to let the worker leave: %s", error)
                return
            except NoAnswer as error:
                delay = backoff.next()
                if time.monotonic() + delay > until:
                    log.warning("the worker could not say that it leaves: %s", error)
                    return
                time.sleep(delay)
