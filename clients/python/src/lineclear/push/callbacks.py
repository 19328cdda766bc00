"""What a handler of a push request reports while it runs: to the callbacks that the request names."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Mapping
from urllib.parse import urlsplit

from lineclear import address, encoding
from lineclear.errors import ApiError, NoAnswer, NotFound, Permanent, Stopped
from lineclear.retry import Backoff, is_transient
from lineclear.transport import Pool, Response
from lineclear.worker.job import Job

log = logging.getLogger("lineclear.push")

FLUSH_SECONDS = 1.0
_TIMEOUT = 10.0


class Callbacks:
    """The callbacks of one claim."""

    def __init__(self, callback: str, token: str) -> None:
        parts = urlsplit(callback)
        # The server chose the scheme, and sent the token over the same network.
        where = address.parse(f"{parts.scheme}://{parts.netloc}", token, insecure_http=True)
        self._path = parts.path
        self._pool = Pool(where, token, None)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def changed(self, job: Job) -> None:
        """Sends lines and progress within a second, in another thread: the caller may be an event loop."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self.flush, (job, False))
                self._timer.daemon = True
                self._timer.start()

    def flush(self, job: Job, at_end: bool) -> None:
        """Sends what has come up. It is not worth a failure of the job."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        lines, progress = job.take_lines(at_end), job.take_progress()
        try:
            if lines:
                self._post(job, "logs", {"lines": lines})
            if progress is not None and not at_end:
                self._post(job, "progress", progress)
        except (NoAnswer, ApiError) as error:
            log.warning("log or progress of job %s could not be sent: %s", job.id, error)

    def read_step(self, job: Job, name: str) -> tuple[bool, Any]:
        try:
            answer = self._until_answered(job, "steps/read", {"name": name})
        except NotFound:
            # A server that cannot be asked: the step runs again.
            return False, None
        return bool(answer.get("found")), answer.get("output")

    def write_step(self, job: Job, step: dict[str, Any]) -> None:
        self._until_answered(job, "steps", step)

    def close(self) -> None:
        self._pool.close()

    def _until_answered(self, job: Job, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        backoff = Backoff()
        until = time.monotonic() + (job.timeout or 60.0)
        while True:
            try:
                return self._post(job, verb, body)
            except NoAnswer:
                if time.monotonic() > until:
                    raise
                job.sleep(backoff.next())
            except NotFound:
                raise
            except ApiError as error:
                if error.code == "stale_claim":
                    job.stop("lost")
                    raise Stopped("lost") from error
                raise Permanent(f"the server refused a step: {error.detail}") from error

    def _post(self, job: Job, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        response: Response = self._pool.send("POST", f"{self._path}/{verb}", encoding.dumps(body), {}, _TIMEOUT)
        if is_transient(response):
            raise NoAnswer(str(response.error()))
        if response.status != 200:
            raise response.error()
        answer = response.json()
        if isinstance(answer, dict) and answer.get("cancel"):
            job.stop("cancelled")
        return answer if isinstance(answer, dict) else {}


class NoCallbacks:
    """The server does not know its public URL: there is no log, no progress, and steps run each time."""

    def changed(self, job: Job) -> None:
        return None

    def read_step(self, job: Job, name: str) -> tuple[bool, Any]:
        return False, None

    def write_step(self, job: Job, step: dict[str, Any]) -> None:
        return None

    def flush(self, job: Job, at_end: bool) -> None:
        return None

    def close(self) -> None:
        return None
