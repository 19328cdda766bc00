"""What a call can raise, and what a handler raises to choose an outcome."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Mapping, Sequence

if TYPE_CHECKING:
    from lineclear.views import JobView


class LineclearError(Exception):
    """The base of every error of this package."""


class ApiError(LineclearError):
    """The server refused the request. `code` is stable; `detail` says what to do."""

    def __init__(self, status: int, code: str, detail: str, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        #: The whole answer, as the server sent it.
        self.problem = problem

    @property
    def fields(self) -> Sequence[Mapping[str, Any]]:
        """The wrong fields, each with a JSON pointer."""
        found = self.problem.get("errors")
        return found if isinstance(found, list) else []


class NotFound(ApiError):
    """The job or manifest does not exist."""


class Unavailable(LineclearError):
    """The server could not be reached, or answered 429, 502, 503 or 504, until the time for retries was over.

    Whether the last request took effect is unknown. Repeat it with the same idempotency key to find out.
    """


class NoAnswer(LineclearError):
    """One request got no whole answer: no connection, a broken one, or a time-out."""


class JobError(LineclearError):
    """A job that was waited for ended without an output."""

    def __init__(self, message: str, job: JobView) -> None:
        super().__init__(message)
        self.job = job


class JobFailed(JobError):
    """The job is a dead letter. `error_type` and `error_message` are those of its last execution."""

    def __init__(self, job: JobView) -> None:
        last = job.executions[-1] if job.executions else None
        self.error_type = last.error_type if last else None
        self.error_message = last.error_message if last else job.last_error
        super().__init__(f"job {job.id} of kind {job.kind} failed: {self.error_message or 'no message'}", job)


class JobCancelled(JobError):
    """The job was cancelled."""

    def __init__(self, job: JobView) -> None:
        super().__init__(f"job {job.id} of kind {job.kind} was cancelled", job)


class WaitTimeout(LineclearError, TimeoutError):
    """The job has not ended in time. It goes on; `job_id` names it."""

    def __init__(self, job_id: str, timeout: float) -> None:
        super().__init__(f"job {job_id} has not ended within {timeout:g} s")
        self.job_id = job_id


class Permanent(LineclearError):
    """Raised by a handler: the job failed, and a retry cannot help. It becomes a dead letter at once."""


class RetryIn(LineclearError):
    """Raised by a handler: the job failed; its next attempt is due after this delay. It spends a retry."""

    def __init__(self, delay: timedelta | float, message: str = "the handler asked for a retry") -> None:
        super().__init__(message)
        self.delay = delay


class Snooze(LineclearError):
    """Raised by a handler: run the job again after this delay. It is not a failure."""

    def __init__(self, delay: timedelta | float) -> None:
        super().__init__("the handler snoozed the job")
        self.delay = delay


class Stopped(LineclearError):
    """Raised in a handler that must stop: its job was cancelled, is out of time, or is lost, or its worker stops."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the handler must stop: {reason}")
        self.reason = reason
