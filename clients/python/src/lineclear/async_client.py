"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, AsyncIterator, Iterable, Sequence, TypeVar

from lineclear import address, requests
from lineclear.async_transport import AsyncPool
from lineclear.client import output_of, run_body
from lineclear.errors import NoAnswer, WaitTimeout
from lineclear.requests import NewJob, Request
from lineclear.retry import Attempts, is_transient
from lineclear.schedule import Schedule
from lineclear.views import Enqueued, JobView, ManifestView

T = TypeVar("T")


class AsyncClient:
    """`Client` for one event loop: the same calls, to be awaited. Any number of tasks may share one."""

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
        self._pool = AsyncPool(address.parse(url, token, insecure_http), token, ssl_context)
        self._timeout = timeout
        self._retry_for = retry_for
        self.manifests = AsyncManifests(self)

    async def call(self, request: Request[T]) -> T:
        """Sends any request, again if need be."""
        attempts = Attempts(self._retry_for)
        while True:
            try:
                response = await self._pool.send(
                    request.method, request.path, request.body, request.headers, self._timeout + request.waits
                )
            except NoAnswer as error:
                await asyncio.sleep(attempts.delay_after(error))
                continue
            if not is_transient(response):
                return request.read(response)
            await asyncio.sleep(attempts.delay_after(response))

    async def enqueue(
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
        return await self.call(requests.enqueue(job, idempotency_key))

    async def enqueue_many(
        self, jobs: Iterable[NewJob], *, idempotency_key: str | None = None
    ) -> list[Enqueued]:
        """Enqueues up to 1,000 jobs, all or none."""
        return await self.call(requests.enqueue_many(jobs, idempotency_key))

    async def job(self, job_id: str) -> JobView:
        """Returns a job with its history. Raises `NotFound`."""
        return await self.call(requests.job(job_id))

    async def cancel(self, job_id: str) -> str:
        """Cancels a job: `cancelled`, or `asked` if it runs, and its handler was told."""
        return await self.call(requests.cancel(job_id))

    async def wait(self, job_id: str, timeout: float | None = None) -> Any:
        """Waits until a job has ended and returns its output. Raises `JobFailed`, `JobCancelled` or `WaitTimeout`."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            wait = math.ceil(max(0.0, min(left, requests.PREFER_WAIT_MAX)))
            asked_at = time.monotonic()
            job = await self.call(requests.job(job_id, wait))
            if job.ended:
                return output_of(job)
            if time.monotonic() >= until:
                raise WaitTimeout(job_id, timeout or 0.0)
            if time.monotonic() - asked_at < 0.5:
                # The server has too many waiting requests, and answered at once.
                await asyncio.sleep(min(1.0, max(0.0, until - time.monotonic())))

    async def run(
        self, kind: str, input: Any = None, timeout: float = 30.0, *, idempotency_key: str | None = None
    ) -> Any:
        """Runs a job and returns its output. Raises as `wait` does; a job that has not ended in time goes on."""
        until = time.monotonic() + timeout
        answer = await self.call(requests.run(kind, input, timeout, idempotency_key))
        if answer.state == "completed":
            return answer.output
        return await self.wait(answer.job_id, max(0.0, until - time.monotonic()))

    async def close(self) -> None:
        """Closes idle connections."""
        self._pool.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncManifests:
    """`Manifests`, to be awaited."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> AsyncIterator[ManifestView]:
        """Iterates over all manifests: `async for`."""
        cursor: str | None = None
        while True:
            page = await self._client.call(requests.manifests(cursor))
            for item in page.items:
                yield item
            cursor = page.next
            if not cursor:
                return

    async def get(self, key: str) -> ManifestView:
        """Returns a manifest. Raises `NotFound`."""
        return await self._client.call(requests.manifest(key))

    async def put(
        self,
        key: str,
        kind: str,
        *,
        schedule: Schedule,
        input: Any = None,
        group: str | None = None,
        **fields: Any,
    ) -> str:
        """Creates or replaces a manifest: `created`, `updated` or `unchanged`. `fields` as for `Manifests.put`."""
        body = {"kind": kind, "schedule": dict(schedule), "input": input, "group": group, **fields}
        return await self._client.call(requests.put_manifest(key, body))

    async def delete(self, key: str) -> None:
        """Removes a manifest. Its planned jobs that wait are cancelled."""
        await self._client.call(requests.delete_manifest(key))

    async def pause(self, key: str) -> None:
        """Stops a manifest from firing."""
        await self._client.call(requests.pause_manifest(key))

    async def resume(self, key: str) -> None:
        """Lets a paused manifest fire again."""
        await self._client.call(requests.resume_manifest(key))

    async def run(
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
        return await self._client.call(requests.run_manifest(key, body, idempotency_key))
