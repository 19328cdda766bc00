"""What a handler knows about its job, and can do with it."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from datetime import datetime, timezone
from typing import Any, Awaitable, Callable, Mapping, Protocol, TypeVar

from lineclear.encoding import moment, read_moment
from lineclear.errors import Permanent, Stopped

T = TypeVar("T")

#: Limits of the server: what is beyond them is cut off or dropped, with a last line that says so.
LOG_LINES_MAX = 1_000
LOG_BYTES_MAX = 256 * 1024
LINE_BYTES_MAX = 8 * 1024
STEPS_MAX = 1_000
PROGRESS_BYTES_MAX = 1_024

_LEVELS = frozenset(("trace", "debug", "info", "warn", "error"))

_lock = threading.Lock()


class Channel(Protocol):
    """Where the log, the progress and the steps of a job go."""

    def changed(self, job: Job) -> None:
        """The job has lines or progress to send."""

    def read_step(self, job: Job, name: str) -> tuple[bool, Any]:
        """Whether an earlier claim finished this step, and its output."""

    def write_step(self, job: Job, step: dict[str, Any]) -> None:
        """Records a step, and returns when it is recorded. Raises `Stopped` if the job is lost."""


class Job:
    """A job in the hands of a handler."""

    __slots__ = (
        "id", "kind", "input", "claim_no", "attempt", "manifest", "tick_at", "trace", "timeout", "stop_reason",
        "_channel", "_stop_event", "_lines", "_logged", "_progress", "_steps",
    )  # fmt: skip

    def __init__(self, raw: Mapping[str, Any], claim_no: int, timeout: float | None, channel: Channel) -> None:
        self.id: str = raw["id"]
        self.kind: str = raw["kind"]
        self.input: Any = raw.get("input")
        #: Grows with every claim of the job. Pass it to other systems as a fencing token.
        self.claim_no = claim_no
        #: 1 for the first attempt.
        self.attempt: int = raw.get("attempt") or 1
        #: The key of the manifest that made the job, if one did.
        self.manifest: str | None = raw.get("manifest")
        tick_at = raw.get("tick_at")
        #: The moment for which the manifest made it.
        self.tick_at: datetime | None = read_moment(tick_at) if tick_at else None
        #: The trace context with which it was enqueued: W3C `traceparent`.
        self.trace: str | None = raw.get("trace")
        #: How long this attempt may run, in seconds.
        self.timeout = timeout
        #: Why the handler must stop: `cancelled`, `timed_out`, `lost`, `shutdown`, or `None` if it need not.
        self.stop_reason: str | None = None
        self._channel = channel
        self._stop_event: threading.Event | None = None
        self._lines: list[dict[str, Any]] = []
        self._logged = (0, 0, 0)
        self._progress: dict[str, Any] | None = None
        self._steps: set[str] | None = None

    def __repr__(self) -> str:
        return f"<Job {self.id} of kind {self.kind}, claim {self.claim_no}>"

    # Stopping

    @property
    def cancelled(self) -> bool:
        """Whether the handler must stop, for any reason. It has five seconds; what it returns in that time counts."""
        return self.stop_reason is not None

    @property
    def lost(self) -> bool:
        """Whether another worker may have the job by now. What the handler returns is dropped."""
        return self.stop_reason == "lost"

    def check(self) -> None:
        """Raises `Stopped` if the handler must stop. Call it where stopping is safe."""
        if self.stop_reason is not None:
            raise Stopped(self.stop_reason)

    def sleep(self, seconds: float) -> None:
        """Sleeps, but raises `Stopped` as soon as the handler must stop. Not for coroutines."""
        with _lock:
            if self._stop_event is None:
                self._stop_event = threading.Event()
                if self.stop_reason is not None:
                    self._stop_event.set()
        self._stop_event.wait(seconds)
        self.check()

    def stop(self, reason: str) -> None:
        """Tells the handler. The first reason stands, unless the job is lost."""
        with _lock:
            if self.stop_reason is None or reason == "lost":
                self.stop_reason = reason
            if self._stop_event is not None:
                self._stop_event.set()

    # Progress and log

    def progress(self, fraction: float, text: str | None = None) -> None:
        """Reports how far the job is, from 0 to 1. Cheap: the latest value is sent about once a second."""
        shown: dict[str, Any] = {"fraction": max(0.0, min(float(fraction), 1.0))}
        if text is not None:
            shown["text"] = cut(text, PROGRESS_BYTES_MAX)
        self._progress = shown
        self._channel.changed(self)

    def log(self, text: str, level: str = "info") -> None:
        """Adds a line to the job's log: `trace`, `debug`, `info`, `warn` or `error`. Lines are sent about once a second."""
        if level not in _LEVELS:
            raise ValueError("`level` must be trace, debug, info, warn or error")
        line = {"at": moment(datetime.now(timezone.utc)), "level": level, "text": cut(text, LINE_BYTES_MAX)}
        size = len(line["text"].encode(errors="replace"))
        with _lock:
            lines, written, dropped = self._logged
            if dropped or lines >= LOG_LINES_MAX or written + size > LOG_BYTES_MAX:
                self._logged = (lines, written, dropped + 1)
                return
            self._logged = (lines + 1, written + size, 0)
            self._lines.append(line)
        self._channel.changed(self)

    def log_error(self, error: BaseException) -> None:
        self.log("".join(traceback.format_exception(error)).rstrip(), "error")

    def take_lines(self, at_end: bool) -> list[dict[str, Any]]:
        with _lock:
            taken, self._lines = self._lines, []
            if at_end and self._logged[2]:
                text = f"{self._logged[2]} more lines were dropped: the log is full"
                taken.append({"at": moment(datetime.now(timezone.utc)), "level": "warn", "text": text})
                self._logged = (self._logged[0], self._logged[1], 0)
        return taken

    def put_back_lines(self, lines: list[dict[str, Any]]) -> None:
        with _lock:
            self._lines = lines + self._lines

    def take_progress(self) -> dict[str, Any] | None:
        taken, self._progress = self._progress, None
        return taken

    # Steps

    def step(self, name: str, function: Callable[[], T]) -> T:
        """Calls the function and records its result. If an earlier attempt recorded this step, returns that result instead.

        The result is JSON. A step name may be used once in a run.
        """
        position = self._begin_step(name)
        found, output = self._earlier(name)
        if found:
            return output  # type: ignore[no-any-return]
        began = time.monotonic()
        try:
            result = function()
        except Exception as error:
            self._failed_step(name, position, began, error)
            raise
        self._write(name, position, began, {"output": result})
        return result

    async def astep(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """`step` for coroutines."""
        position = self._begin_step(name)
        found, output = await asyncio.to_thread(self._earlier, name)
        if found:
            return output  # type: ignore[no-any-return]
        began = time.monotonic()
        try:
            result = await function()
        except Exception as error:
            await asyncio.to_thread(self._failed_step, name, position, began, error)
            raise
        await asyncio.to_thread(self._write, name, position, began, {"output": result})
        return result

    def _begin_step(self, name: str) -> int:
        self.check()
        if self._steps is None:
            self._steps = set()
        if name in self._steps:
            raise Permanent(f"the step {name!r} was used twice: each step of a handler must have its own name")
        if len(self._steps) >= STEPS_MAX:
            raise Permanent(f"a handler must have at most {STEPS_MAX} steps")
        self._steps.add(name)
        return len(self._steps)

    def _earlier(self, name: str) -> tuple[bool, Any]:
        # The first claim has no earlier one that could have recorded a step.
        return self._channel.read_step(self, name) if self.claim_no > 1 else (False, None)

    def _failed_step(self, name: str, position: int, began: float, error: Exception) -> None:
        if isinstance(error, Stopped):
            return
        shown = {"type": type(error).__name__, "message": cut(str(error), LINE_BYTES_MAX)}
        self._write(name, position, began, {"error": shown})

    def _write(self, name: str, position: int, began: float, result: dict[str, Any]) -> None:
        took = round((time.monotonic() - began) * 1000)
        self._channel.write_step(self, {"name": name, "position": position, **result, "took_ms": took})


def cut(text: str, bytes_max: int) -> str:
    """The beginning of a text, in valid UTF-8 and without NUL, which databases refuse."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace")
    return clean[:bytes_max].decode(errors="ignore")
