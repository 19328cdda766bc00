"""Outcomes of handlers, in the JSON of the API."""

from __future__ import annotations

from typing import Any

from lineclear import encoding
from lineclear.errors import Permanent, RetryIn, Snooze, Stopped
from lineclear.worker.job import Job, cut

#: An outcome object, encoded once, where the handler ended.
Outcome = bytes

OUTPUT_BYTES_MAX = 64 * 1024
MESSAGE_BYTES_MAX = 8 * 1024
TYPE_BYTES_MAX = 255

COMPLETED: Outcome = b'{"outcome":"completed"}'
RELEASED: Outcome = b'{"outcome":"released"}'
_STOPPED: dict[str, Outcome] = {
    "cancelled": b'{"outcome":"cancelled"}',
    "timed_out": b'{"outcome":"timed_out"}',
    "shutdown": RELEASED,
}


def completed(output: Any) -> Outcome:
    """The handler returned. An output that cannot be kept is a permanent failure: a retry would do the work again."""
    if output is None:
        return COMPLETED
    try:
        encoded = encoding.dumps(output)
    except (TypeError, ValueError, RecursionError) as error:
        return failed(Permanent(f"the output must be JSON: {error}"))
    if len(encoded) > OUTPUT_BYTES_MAX:
        return failed(Permanent(f"the output must have at most 64 KiB of JSON, and has {len(encoded)} bytes"))
    return b'{"outcome":"completed","output":' + encoded + b"}"


def failed(error: BaseException) -> Outcome:
    """The handler raised."""
    if isinstance(error, Snooze):
        return encoding.dumps({"outcome": "snoozed", "in_ms": encoding.milliseconds(error.delay)})
    cause = error.__cause__ if isinstance(error, (Permanent, RetryIn)) and error.__cause__ else error
    message = cut(str(error) or type(error).__name__, MESSAGE_BYTES_MAX)
    shown = {"type": cut(type(cause).__name__, TYPE_BYTES_MAX), "message": message}
    outcome: dict[str, Any] = {"outcome": "failed", "error": shown}
    if isinstance(error, Permanent):
        outcome["permanent"] = True
    if isinstance(error, RetryIn):
        outcome["in_ms"] = encoding.milliseconds(error.delay)
    return encoding.dumps(outcome)


def stopped(job: Job) -> Outcome | None:
    """The handler ended because it was told to. There is no outcome for a lost job."""
    return _STOPPED.get(job.stop_reason or "")


def of_error(job: Job, error: BaseException) -> Outcome | None:
    """The outcome of a handler that raised, with the traceback in the job's log unless the handler chose the outcome."""
    if isinstance(error, Stopped) and job.cancelled:
        return stopped(job)
    if not isinstance(error, (Snooze, RetryIn, Permanent)):
        job.log_error(error)
    return failed(error)
