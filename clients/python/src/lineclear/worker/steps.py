"""Reads and records steps."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from lineclear.errors import ApiError, NoAnswer, Permanent, Stopped
from lineclear.retry import Backoff
from lineclear.worker.api import ClaimsApi
from lineclear.worker.claims import Claims
from lineclear.worker.clock import Clock
from lineclear.worker.job import Job

T = TypeVar("T")


class Steps:
    """Calls that a handler waits for. Without an answer they are sent again until the handler must stop."""

    def __init__(self, api: ClaimsApi, claims: Claims, clock: Clock) -> None:
        self._api = api
        self._claims = claims
        self._clock = clock

    def read(self, job: Job, name: str) -> tuple[bool, Any]:
        """Whether an earlier claim finished this step, and its output."""
        item = {"job": job.id, "no": job.claim_no, "name": name}
        found = self._until_answered(job, lambda: self._api.read_steps([item]))["steps"][0]
        self._check(job, found)
        return bool(found.get("found")), found.get("output")

    def write(self, job: Job, step: dict[str, Any]) -> None:
        """Records a step."""
        item = {"job": job.id, "no": job.claim_no, **step}
        answer = self._until_answered(job, lambda: self._api.steps([item]))
        found = (answer.get("steps") or answer.get("claims"))[0]  # type: ignore[index]
        self._check(job, found)

    def _until_answered(self, job: Job, call: Callable[[], T]) -> T:
        backoff = Backoff()
        while True:
            job.check()
            try:
                return call()
            except NoAnswer as error:
                job.sleep(backoff.next(getattr(error, "retry_after", None)))
            except ApiError as error:
                if error.code == "stale_claim":
                    self._lose(job)
                raise Permanent(f"the server refused a step: {error.detail}") from error

    def _check(self, job: Job, answer: dict[str, Any]) -> None:
        if answer.get("status") == "stale_claim":
            self._lose(job)
        if answer.get("status") == "refused":
            raise Permanent(f"the server refused a step: {answer.get('detail')}")

    def _lose(self, job: Job) -> None:
        claim = self._claims.get(job.id, job.claim_no)
        if claim is not None:
            self._clock.lose(claim, "the server says that its claim has ended")
        job.stop("lost")
        raise Stopped("lost")
