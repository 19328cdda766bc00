"""Sends what handlers report: log lines, progress, and outcomes, in batches."""

from __future__ import annotations

import logging
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any, Iterator, Sequence

from lineclear import encoding
from lineclear.errors import ApiError, NoAnswer, Permanent
from lineclear.retry import Backoff
from lineclear.worker import outcome
from lineclear.worker.api import CLAIMS_MAX, ClaimsApi
from lineclear.worker.claims import Claim, Claims
from lineclear.worker.clock import Clock
from lineclear.worker.job import Job

log = logging.getLogger("lineclear.worker")

#: How often lines and progress of running jobs are sent.
FLUSH_SECONDS = 1.0
#: Pauses before outcomes are sent again that the server skipped, because other transactions hold the rows of their jobs.
SKIPPED_SECONDS_MIN = 0.05
SKIPPED_SECONDS_MAX = 1.0
#: How long the first outcome waits for others while so many handlers run: short jobs that began together end together.
GATHER_SECONDS = 0.003
GATHER_HANDLERS = 4
#: How long an outcome that cannot be sent is kept. The server decides whether it still counts.
KEEP_SECONDS = 600.0
SETTLE_BYTES_MAX = 4 * 1024 * 1024
LOGS_BYTES_MAX = 384 * 1024
LOGS_LINES_MAX = 1_000

_REFUSED = (400, 413, 415, 422)


class Reporter:
    """A thread that sends whatever has come up while the last call was under way."""

    def __init__(self, api: ClaimsApi, claims: Claims) -> None:
        self._api = api
        self._claims = claims
        self.clock: Clock
        #: Claims whose handlers have ended; `None` wakes the thread.
        self._ended: SimpleQueue[Claim | None] = SimpleQueue()
        self._changed: dict[tuple[str, int], Job] = {}
        self._lock = threading.Lock()
        self._flush_at = float("inf")
        #: Claims whose outcomes the server skipped. They do not hold up others.
        self._skipped: list[Claim] = []
        self._skipped_at = float("inf")
        self._skipped_pause = Backoff(SKIPPED_SECONDS_MIN, SKIPPED_SECONDS_MAX)
        self._stop_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="lineclear-reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Sends the rest, for so long at most."""
        self._stop_at = time.monotonic() + timeout
        self._ended.put(None)
        self._thread.join(timeout + 1.0)

    def settle(self, claim: Claim) -> None:
        """A handler has ended, with an outcome."""
        self._ended.put(claim)

    def changed(self, job: Job) -> None:
        """A job has lines or progress to send."""
        with self._lock:
            wake = not self._changed
            self._changed[(job.id, job.claim_no)] = job
            if wake:
                self._flush_at = time.monotonic() + FLUSH_SECONDS
        if wake:
            self._ended.put(None)

    def _run(self) -> None:
        pending: list[Claim] = []
        backoff = Backoff()
        while True:
            pending += self._collect(wait=not pending)
            pending += self._take_skipped()
            stopping = self._stop_at is not None
            try:
                if pending or stopping or self._flush_at <= time.monotonic():
                    self._flush()
                while pending:
                    batch = _batch(pending)
                    self._send_later(self._settle(batch))
                    del pending[: len(batch)]
                backoff.reset()
            except Exception as error:
                delay = backoff.next(getattr(error, "retry_after", None))
                what = f"results of {len(pending)} jobs" if pending else "log and progress of jobs"
                is_defect = not isinstance(error, (NoAnswer, ApiError))
                log.warning("%s could not be sent, and are tried again: %s", what, error, exc_info=is_defect)
                pending = self._still_worth_sending(pending)
                time.sleep(min(delay, max(0.0, (self._stop_at or float("inf")) - time.monotonic())))
            if self._stop_at is not None:
                is_done = not pending and not self._skipped
                if (is_done or time.monotonic() >= self._stop_at) and self._ended.empty():
                    return

    def _send_later(self, skipped: list[Claim]) -> None:
        if skipped:
            self._skipped += skipped
            self._skipped_at = time.monotonic() + self._skipped_pause.next()
        elif not self._skipped:
            self._skipped_pause.reset()

    def _take_skipped(self) -> list[Claim]:
        """Those whose pause is over."""
        if self._skipped_at > time.monotonic():
            return []
        due, self._skipped, self._skipped_at = self._skipped, [], float("inf")
        return due

    def _collect(self, wait: bool) -> list[Claim]:
        """What has ended by now. Waits if there is nothing else to do."""
        found: list[Claim] = []
        try:
            if wait and (self._stop_at is None or self._skipped):
                until = min(self._flush_at, self._skipped_at, self._stop_at or float("inf"))
                left = until - time.monotonic()
                first = self._ended.get(timeout=max(left, 0.0)) if left < float("inf") else self._ended.get()
                if first is not None:
                    found.append(first)
                    self._gather(found)
            while len(found) < CLAIMS_MAX:
                claim = self._ended.get_nowait()
                if claim is not None:
                    found.append(claim)
        except Empty:
            pass
        return found

    def _gather(self, found: list[Claim]) -> None:
        if self._claims.active < GATHER_HANDLERS:
            return
        until = time.monotonic() + GATHER_SECONDS
        while self._claims.active and len(found) < CLAIMS_MAX and (left := until - time.monotonic()) > 0:
            claim = self._ended.get(timeout=left)
            if claim is not None:
                found.append(claim)

    def _still_worth_sending(self, pending: list[Claim]) -> list[Claim]:
        now = time.monotonic()
        kept = [claim for claim in pending if now < claim.renewed_at + max(claim.lease, KEEP_SECONDS)]
        if len(kept) < len(pending):
            log.error("results of %d jobs could not be sent for too long, and are dropped", len(pending) - len(kept))
            self._claims.forget(claim.key for claim in pending if claim not in kept)
        return kept

    def _flush(self) -> None:
        """Sends lines and progress. Lines come before the outcome: afterwards the claim is over."""
        with self._lock:
            jobs, self._changed = self._changed, {}
            self._flush_at = float("inf")
        if not jobs:
            return
        try:
            self._send_logs(list(jobs.values()))
            items = []
            for key, job in jobs.items():
                claim = self._claims.get(*key)
                progress = job.take_progress()
                if progress is not None and claim is not None and not claim.is_over:
                    items.append({"job": key[0], "no": key[1], **progress})
            for start in range(0, len(items), CLAIMS_MAX):
                self._note_stale(self._api.progress(items[start : start + CLAIMS_MAX]))
        except NoAnswer:
            for job in jobs.values():
                self.changed(job)
            raise
        except ApiError as error:
            log.error("the server refused log or progress of jobs: %s", error)

    def _send_logs(self, jobs: Sequence[Job]) -> None:
        waiting: list[tuple[Job, list[dict[str, Any]]]] = []
        for job in jobs:
            claim = self._claims.get(job.id, job.claim_no)
            lines = job.take_lines(at_end=claim is None or claim.is_over)
            waiting += [(job, part) for part in _parts(lines)]
        while waiting:
            batch = _log_batch(waiting)
            items = [{"job": job.id, "no": job.claim_no, "lines": lines} for job, lines in batch]
            try:
                self._note_stale(self._api.logs(items))
            except NoAnswer:
                for job, lines in reversed(waiting):
                    job.put_back_lines(lines)
                raise
            del waiting[: len(batch)]

    def _note_stale(self, answer: dict[str, Any]) -> None:
        for item in answer.get("claims", ()):
            if item["status"] == "stale_claim":
                claim = self._claims.get(item["job"], item["no"])
                if claim is not None and not claim.is_over:
                    self.clock.lose(claim, "the server says that its claim has ended")

    def _settle(self, batch: Sequence[Claim]) -> list[Claim]:
        """Sends outcomes, and returns those to send again. One that the server refuses does not hold up the others."""
        by_key = {claim.key: claim for claim in batch}
        try:
            statuses = self._api.settle([_item(claim) for claim in batch])
        except ApiError as error:
            if error.status not in _REFUSED:
                raise
            if len(batch) > 1:
                middle = len(batch) // 2
                return self._settle(batch[:middle]) + self._settle(batch[middle:])
            return self._refused(batch[0], error.detail)
        settled: list[tuple[str, int]] = []
        again: list[Claim] = []
        for item in statuses:
            claim = by_key.get((item["job"], item["no"]))
            if claim is None:
                continue
            if item["status"] == "refused":
                again += self._refused(claim, str(item.get("detail")))
                continue
            if item["status"] == "skipped":
                again.append(claim)
                continue
            settled.append(claim.key)
            if item["status"] == "stale_claim":
                log.warning("the result of job %s (claim %d) came too late: its claim has ended (stale_claim)", *claim.key)
        self._claims.forget(settled)
        return again

    def _refused(self, claim: Claim, why: str) -> list[Claim]:
        """The server can never record this outcome: the job has failed, so that people see why."""
        instead = outcome.failed(Permanent(f"the server refused the outcome of the handler: {why}"))
        if claim.outcome == instead:
            log.error("the server refused the outcome of job %s (claim %d): %s", *claim.key, why)
            self._claims.forget([claim.key])
            return []
        claim.outcome = instead
        return self._settle([claim])


def _item(claim: Claim) -> bytes:
    job, no = claim.key
    return b'{"job":%s,"no":%d,' % (encoding.dumps(job), no) + (claim.outcome or outcome.RELEASED)[1:]


def _batch(pending: Sequence[Claim]) -> list[Claim]:
    """The first of them, as many as one call may have."""
    size = 0
    for count, claim in enumerate(pending):
        size += len(claim.outcome or b"") + 64
        if count and (size > SETTLE_BYTES_MAX or count == CLAIMS_MAX):
            return list(pending[:count])
    return list(pending)


def _parts(lines: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Lines of a job, at most as many as one call may have."""
    part: list[dict[str, Any]] = []
    size = 0
    for line in lines:
        size += len(line["text"].encode()) + 80
        if part and (size > LOGS_BYTES_MAX or len(part) == LOGS_LINES_MAX):
            yield part
            part, size = [], len(line["text"].encode()) + 80
        part.append(line)
    if part:
        yield part


def _log_batch(waiting: Sequence[tuple[Job, list[dict[str, Any]]]]) -> list[tuple[Job, list[dict[str, Any]]]]:
    """The first of them, at most as many as one call may have, and no job twice."""
    batch: list[tuple[Job, list[dict[str, Any]]]] = []
    size = count = 0
    for job, lines in waiting:
        size += sum(len(line["text"].encode()) + 80 for line in lines)
        count += len(lines)
        is_full = size > LOGS_BYTES_MAX or count > LOGS_LINES_MAX or len(batch) == CLAIMS_MAX
        if batch and (is_full or batch[-1][0] is job):
            break
        batch.append((job, lines))
    return batch
