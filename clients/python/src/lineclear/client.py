"""The client for programs without an event loop."""

from __future__ import annotations

import math
import ssl
import time
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Iterable, Iterator, Sequence, TypeVar

from lineclear import address, requests
from lineclear.encoding import milliseconds, moment
from lineclear.errors import JobCancelled, JobFailed, NoAnswer, WaitTimeout
from lineclear.requests import NewJob, Request
from lineclear.retry import Attempts, is_transient
from lineclear.schedule import Schedule
from lineclear.transport import Pool
from lineclear.views import Enqueued, JobView, ManifestView

T = TypeVar("T")


class Client:
    """Enqueues jobs, waits for them, and manages manifests. Any number of threads may share one.

    `timeout` is for one request, in seconds. A request without an answer, or one that the server is too busy for, is sent
    again for `retry_for` seconds; idempotency keys ensure that it takes effect once.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retry_for: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        insecure_http: bool = False,
    ) -> None:
        self._pool = Pool(address.parse(url, token, insecure_http), token, ssl_context)
        self._timeout = timeout
        self._retry_for = retry_for
        self.manifests = Manifests(self)

    def call(self, request: Request[T]) -> T:
        """Sends any request, again if need be."""
        attempts = Attempts(self._retry_for)
        while True:
            try:
                response = self._pool.send(
                    request.method, request.path, request.body, request.headers, self._timeout + request.waits
                )
            except NoAnswer as error:
                time.sleep(attempts.delay_after(error))
                continue
            if not is_transient(response):
                return request.read(response)
            time.sleep(attempts.delay_after(response))

    def enqueue(
        self,
        kind: str,
        input: Any = None,
        *,
        due_at: datetime | str | None = None,
        delay: timedelta | float | None = None,
        priority: int = 0,
        group: str | None = None,
        unique_key: str | None = None,
        on_conflict: str | None = None,
        limit_key: str | None = None,
        retries: int | None = None,
        timeout: timedelta | float | None = None,
        tags: Sequence[str] = (),
        route: str | None = None,
        idempotency_key: str | None = None,
    ) -> Enqueued:
        """Enqueues one job. The fields are those of `NewJob`; a second call with the same `idempotency_key` changes nothing."""
        job = NewJob(
            kind, input, due_at, delay, priority, group, unique_key, on_conflict, limit_key, retries, timeout, tags, route
        )
        return self.call(requests.enqueue(job, idempotency_key))

    def enqueue_many(self, jobs: Iterable[NewJob], *, idempotency_key: str | None = None) -> list[Enqueued]:
        """Enqueues up to 1,000 jobs, all or none."""
        return self.call(requests.enqueue_many(jobs, idempotency_key))

    def job(self, job_id: str) -> JobView:
        """Returns a job with its history. Raises `NotFound`."""
        return self.call(requests.job(job_id))

    def cancel(self, job_id: str) -> str:
        """Cancels a job: `cancelled`, or `asked` if it runs, and its handler was told."""
        return self.call(requests.cancel(job_id))

    def wait(self, job_id: str, timeout: float | None = None) -> Any:
        """Waits until a job has ended and returns its output. Raises `JobFailed`, `JobCancelled` or `WaitTimeout`."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            wait = math.ceil(max(0.0, min(left, requests.PREFER_WAIT_MAX)))
            asked_at = time.monotonic()
            job = self.call(requests.job(job_id, wait))
            if job.ended:
                return output_of(job)
            if time.monotonic() >= until:
                raise WaitTimeout(job_id, timeout or 0.0)
            if time.monotonic() - asked_at < 0.5:
                # The server has too many waiting requests, and answered at once.
                time.sleep(min(1.0, max(0.0, until - time.monotonic())))

    def run(
        self, kind: str, input: Any = None, timeout: float = 30.0, *, idempotency_key: str | None = None
    ) -> Any:
        """Runs a job and returns its output. Raises as `wait` does; a job that has not ended in time goes on."""
        until = time.monotonic() + timeout
        answer = self.call(requests.run(kind, input, timeout, idempotency_key))
        if answer.state == "completed":
            return answer.output
        return self.wait(answer.job_id, max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Closes idle connections."""
        self._pool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def output_of(job: JobView) -> Any:
    """The output of a job that has ended, or the error that says how."""
    if job.state == "completed":
        return job.output
    raise JobCancelled(job) if job.state == "cancelled" else JobFailed(job)


class Manifests:
    """Manifests: which kind runs when."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> Iterator[ManifestView]:
        """Iterates over all manifests."""
        page = self._client.call(requests.manifests(None))
        yield from page.items
        while page.next:
            page = self._client.call(requests.manifests(page.next))
            yield from page.items

    def get(self, key: str) -> ManifestView:
        """Returns a manifest. Raises `NotFound`."""
        return self._client.call(requests.manifest(key))

    def put(
        self,
        key: str,
        kind: str,
        *,
        schedule: Schedule,
        input: Any = None,
        group: str | None = None,
        **fields: Any,
    ) -> str:
        """Creates or replaces a manifest: `created`, `updated` or `unchanged`.

        `fields` are the others of a manifest file, such as `overlap`, `misfire`, `retries`, `timeout` or `tags`.
        """
        body = {"kind": kind, "schedule": dict(schedule), "input": input, "group": group, **fields}
        return self._client.call(requests.put_manifest(key, body))

    def delete(self, key: str) -> None:
        """Removes a manifest. Its planned jobs that wait are cancelled."""
        self._client.call(requests.delete_manifest(key))

    def pause(self, key: str) -> None:
        """Stops a manifest from firing."""
        self._client.call(requests.pause_manifest(key))

    def resume(self, key: str) -> None:
        """Lets a paused manifest fire again."""
        self._client.call(requests.resume_manifest(key))

    def run(
        self,
        key: str,
        *,
        input: Any = None,
        due_at: datetime | str | None = None,
        delay: timedelta | float | None = None,
        idempotency_key: str | None = None,
    ) -> str:
        """Runs a manifest now, or later, and returns the id of the job. `input` replaces the manifest's."""
        body = run_body(input, due_at, delay)
        return self._client.call(requests.run_manifest(key, body, idempotency_key))


def run_body(
    input: Any, due_at: datetime | str | None, delay: timedelta | float | None
) -> dict[str, Any]:
    """The options of one run of a manifest, in JSON."""
    body: dict[str, Any] = {}
    if input is not None:
        body["input"] = input
    if due_at is not None:
        body["due_at"] = moment(due_at)
    if delay is not None:
        body["in_ms"] = milliseconds(delay)
    return body
