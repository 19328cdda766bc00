"""Every call of the API, as a value that the synchronous and the asynchronous client send."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Callable, Generic, Iterable, Mapping, Sequence, TypeVar
from urllib.parse import quote, urlencode

from lineclear import encoding
from lineclear.encoding import milliseconds, moment
from lineclear.transport import Response
from lineclear.views import Enqueued, JobView, ManifestView

T = TypeVar("T")

#: The longest time that the server waits for a job in one request, in seconds.
PREFER_WAIT_MAX = 25
#: The longest time that `run` waits in one request, in seconds.
RUN_WAIT_MAX = 300.0


@dataclass(frozen=True)
class Request(Generic[T]):
    """One call. Each may be sent again: it is idempotent, or carries an idempotency key."""

    method: str
    path: str
    decode: Callable[[Response], T]
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Seconds that the server may wait before it answers.
    waits: float = 0.0

    def read(self, response: Response) -> T:
        """Decodes a success, and raises what else there is."""
        if not 200 <= response.status < 300:
            raise response.error()
        return self.decode(response)


@dataclass(frozen=True)
class NewJob:
    """A job to enqueue. Durations are seconds or `timedelta`."""

    kind: str
    input: Any = None
    #: The earliest start.
    due_at: datetime | str | None = None
    #: Added to now, by the clock of the server's database.
    delay: timedelta | float | None = None
    #: 0 to 31; each step is worth ten minutes of waiting.
    priority: int = 0
    group: str | None = None
    #: At most one unfinished job has this key.
    unique_key: str | None = None
    #: What happens if another job has the key: `existing`, `same`, `refuse` or `replace`.
    on_conflict: str | None = None
    #: At most one job with this key runs at a time, unless the key has another limit.
    limit_key: str | None = None
    #: Attempts after the first one.
    retries: int | None = None
    #: The longest time that one attempt may run.
    timeout: timedelta | float | None = None
    tags: Sequence[str] = ()
    route: str | None = None

    def body(self) -> dict[str, Any]:
        """The job in JSON."""
        body: dict[str, Any] = {"kind": self.kind}
        if self.input is not None:
            body["input"] = self.input
        if self.due_at is not None:
            body["due_at"] = moment(self.due_at)
        if self.delay is not None:
            body["in_ms"] = milliseconds(self.delay)
        if self.timeout is not None:
            body["timeout_ms"] = milliseconds(self.timeout)
        if self.priority:
            body["priority"] = self.priority
        if self.tags:
            body["tags"] = list(self.tags)
        for name in ("group", "unique_key", "on_conflict", "limit_key", "retries", "route"):
            if getattr(self, name) is not None:
                body[name] = getattr(self, name)
        return body


def key_header(idempotency_key: str | None) -> dict[str, str]:
    """The key with which the server recognizes a request that is sent again."""
    return {"idempotency-key": idempotency_key or str(uuid.uuid4())}


def enqueue(job: NewJob, idempotency_key: str | None) -> Request[Enqueued]:
    body = encoding.dumps(job.body())
    return Request("POST", "/api/v1/jobs", lambda r: Enqueued.read(r.json()), body, key_header(idempotency_key))


def enqueue_many(jobs: Iterable[NewJob], idempotency_key: str | None) -> Request[list[Enqueued]]:
    body = encoding.dumps({"jobs": [job.body() for job in jobs]})

    def decode(response: Response) -> list[Enqueued]:
        return [Enqueued.read(one) for one in response.json()["jobs"]]

    return Request("POST", "/api/v1/jobs/batch", decode, body, key_header(idempotency_key))


def job(job_id: str, wait: int = 0) -> Request[JobView]:
    headers = {"prefer": f"wait={wait}"} if wait else {}
    path = f"/api/v1/jobs/{quote(job_id, safe='')}"
    return Request("GET", path, lambda r: JobView.read(r.json()), headers=headers, waits=wait)


def cancel(job_id: str) -> Request[str]:
    path = f"/api/v1/jobs/{quote(job_id, safe='')}/cancel"
    return Request("POST", path, lambda r: str(r.json()["became"]))


@dataclass(frozen=True)
class RunAnswer:
    """The answer to a synchronous run. `state` is `None` if the job has not ended in time."""

    job_id: str
    state: str | None
    output: Any


def run(kind: str, input: Any, wait: float, idempotency_key: str | None) -> Request[RunAnswer]:
    wait = min(wait, RUN_WAIT_MAX)
    path = f"/api/v1/run/{quote(kind, safe='')}?{urlencode({'wait_ms': milliseconds(wait)})}"

    def decode(response: Response) -> RunAnswer:
        raw = response.json()
        job_id = str(raw.get("job") or raw.get("id"))
        if response.status == 202:
            return RunAnswer(job_id, None, None)
        return RunAnswer(job_id, raw["state"], raw.get("output"))

    return Request("POST", path, decode, encoding.dumps(input), key_header(idempotency_key), waits=wait)


def _manifest(key: str, action: str = "") -> str:
    return f"/api/v1/manifests/{quote(key, safe='')}{action}"


def _nothing(response: Response) -> None:
    return None


@dataclass(frozen=True)
class ManifestPage:
    """A page of manifests, and where the next one begins."""

    items: list[ManifestView]
    next: str | None


def manifests(cursor: str | None) -> Request[ManifestPage]:
    query = urlencode({"limit": 1000, **({"cursor": cursor} if cursor else {})})

    def decode(response: Response) -> ManifestPage:
        raw = response.json()
        return ManifestPage([ManifestView.read(one) for one in raw["items"]], raw.get("next"))

    return Request("GET", f"/api/v1/manifests?{query}", decode)


def manifest(key: str) -> Request[ManifestView]:
    return Request("GET", _manifest(key), lambda r: ManifestView.read(r.json()))


def put_manifest(key: str, fields: Mapping[str, Any]) -> Request[str]:
    body = encoding.dumps({name: value for name, value in fields.items() if value is not None})
    return Request("PUT", _manifest(key), lambda r: str(r.json()["became"]), body)


def delete_manifest(key: str) -> Request[None]:
    return Request("DELETE", _manifest(key), _nothing)


def pause_manifest(key: str) -> Request[None]:
    return Request("POST", _manifest(key, "/pause"), _nothing)


def resume_manifest(key: str) -> Request[None]:
    return Request("POST", _manifest(key, "/resume"), _nothing)


def run_manifest(key: str, body: Mapping[str, Any], idempotency_key: str | None) -> Request[str]:
    sent = encoding.dumps(body) if body else None
    headers = key_header(idempotency_key)
    return Request("POST", _manifest(key, "/run"), lambda r: str(r.json()["id"]), sent, headers)
