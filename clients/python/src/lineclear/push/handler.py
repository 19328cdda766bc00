"""The endpoint of a push submitter, for any WSGI or ASGI server."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from typing import Any, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence

from lineclear import encoding
from lineclear.push import signature
from lineclear.push.answers import Answer, Answers
from lineclear.push.callbacks import Callbacks, NoCallbacks
from lineclear.worker import outcome
from lineclear.worker.handlers import Handler, Handlers
from lineclear.worker.job import Job

log = logging.getLogger("lineclear.push")

#: An input has at most 256 KiB.
REQUEST_BYTES_MAX = 1024 * 1024
VERSION = 1

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def handler(worker: Handlers, secrets: Sequence[str]) -> PushHandler:
    """Serves the handlers of a worker. Any one of the secrets may have signed a request, so that secrets can be rotated."""
    return PushHandler(worker, secrets)


class Refusal(Exception):
    """The request is not answered with an outcome."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        body = {"status": status, "code": code, "detail": detail}
        self.answer = Answer(status, encoding.dumps(body), (("content-type", "application/problem+json"),))


class _Work:
    """A verified request: the job, and who runs it."""

    def __init__(self, handler: Handler, job: Job, channel: Callbacks | NoCallbacks) -> None:
        self.handler = handler
        self.job = job
        self.channel = channel

    def run(self) -> Answer:
        """Runs a function, or a coroutine on an event loop of its own."""
        try:
            output = self.handler.call(self.job)
            return self._answer(asyncio.run(output) if self.handler.is_async else output)
        except BaseException as error:
            return self._failed(error)
        finally:
            self._end()

    async def run_async(self) -> Answer:
        """Runs a coroutine on this event loop, or a function in a thread."""
        if not self.handler.is_async:
            return await asyncio.to_thread(self.run)
        try:
            return self._answer(await asyncio.wait_for(self.handler.call(self.job), self.job.timeout))
        except asyncio.TimeoutError:
            self.job.stop("timed_out")
            return Answer(200, outcome.stopped(self.job) or outcome.RELEASED)
        except Exception as error:
            return self._failed(error)
        finally:
            await asyncio.to_thread(self._end)

    def _answer(self, output: Any) -> Answer:
        return Answer(200, outcome.completed(output))

    def _failed(self, error: BaseException) -> Answer:
        # A lost job has no outcome: the server knows, and ignores the answer.
        return Answer(200, outcome.of_error(self.job, error) or outcome.RELEASED)

    def _end(self) -> None:
        self.channel.flush(self.job, at_end=True)
        self.channel.close()


class PushHandler:
    """`handler.wsgi` is a WSGI application, `handler.asgi` an ASGI one. `handle` and `ahandle` fit into any framework."""

    def __init__(self, handlers: Handlers, secrets: Sequence[str]) -> None:
        if isinstance(secrets, str) or not secrets:
            raise ValueError("`secrets` must be a list with at least one secret")
        self._handlers = handlers
        self._keys = [signature.key(secret) for secret in secrets]
        self._answers = Answers()

    def handle(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Verifies a request, runs its job, and returns the answer."""
        try:
            request_id, work = self._read(headers, body)
        except Refusal as refusal:
            return refusal.answer
        found, is_mine = self._answers.begin(request_id)
        if is_mine:
            self._settle(request_id, found, work.run)
        return found.result()

    async def ahandle(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """`handle` for coroutines."""
        try:
            request_id, work = self._read(headers, body)
        except Refusal as refusal:
            return refusal.answer
        found, is_mine = self._answers.begin(request_id)
        if not is_mine:
            return await asyncio.wrap_future(found)
        try:
            answer = await work.run_async()
        except BaseException as error:
            self._answers.forget(request_id)
            found.set_exception(error if isinstance(error, Exception) else RuntimeError("the request was cancelled"))
            raise
        found.set_result(answer)
        return answer

    def _settle(self, request_id: str, found: Future[Answer], run: Callable[[], Answer]) -> None:
        try:
            found.set_result(run())
        except BaseException as error:
            self._answers.forget(request_id)
            found.set_exception(error)
            raise

    def _read(self, headers: Mapping[str, str], body: bytes) -> tuple[str, _Work]:
        if len(body) > REQUEST_BYTES_MAX:
            raise Refusal(413, "too_large", f"a request has at most {REQUEST_BYTES_MAX} bytes")
        try:
            request_id = signature.verify(self._keys, {k.lower(): v for k, v in headers.items()}, body)
        except signature.BadSignature as error:
            log.warning("a request was refused: %s", error)
            raise Refusal(401, "bad_signature", str(error)) from error
        try:
            raw = encoding.loads(body)
            if raw["version"] != VERSION:
                # Not one that refuses the job: the next release of this endpoint may know the version.
                raise Refusal(503, "unknown_version", f"this endpoint knows version {VERSION} only; upgrade it")
            job, claim, callback = raw["job"], raw["claim"], raw.get("callback")
            found = self._handlers.get(job["kind"])
            if found is None:
                # Not one that refuses the job: the next release of this endpoint may have the handler.
                raise Refusal(404, "unknown_kind", f"there is no handler for the kind {job['kind']!r}")
            token = claim.get("token")
            channel = Callbacks(callback, token) if callback and token else NoCallbacks()
            timeout = claim.get("timeout_ms")
            made = Job(job, claim["no"], timeout / 1000 if timeout else None, channel)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refusal(400, "malformed", f"the request is malformed: {error!r}") from error
        return request_id, _Work(found, made, channel)

    # Servers

    def wsgi(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The WSGI application."""
        answer = self._wsgi_answer(environ)
        headers = [*answer.headers, ("content-length", str(len(answer.body)))]
        start_response(f"{answer.status} {'OK' if answer.status == 200 else 'Refused'}", headers)
        return [answer.body]

    def _wsgi_answer(self, environ: Mapping[str, Any]) -> Answer:
        if environ["REQUEST_METHOD"] != "POST":
            return Refusal(405, "method_not_allowed", "send a POST").answer
        length = environ.get("CONTENT_LENGTH") or "0"
        if not length.isdecimal() or int(length) > REQUEST_BYTES_MAX:
            return Refusal(413, "too_large", f"a request has at most {REQUEST_BYTES_MAX} bytes").answer
        body: bytes = environ["wsgi.input"].read(int(length))
        headers = {
            name[5:].replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        return self.handle(headers, body)

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"this application serves HTTP only, not {scope['type']}")
        answer = await self._asgi_answer(scope, receive)
        length = (b"content-length", str(len(answer.body)).encode())
        headers = [*((name.encode(), value.encode()) for name, value in answer.headers), length]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _asgi_answer(self, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] != "POST":
            return Refusal(405, "method_not_allowed", "send a POST").answer
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return Refusal(400, "malformed", "the request has no end").answer
            body += message.get("body", b"")
            if len(body) > REQUEST_BYTES_MAX:
                return Refusal(413, "too_large", f"a request has at most {REQUEST_BYTES_MAX} bytes").answer
            if not message.get("more_body"):
                break
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        return await self.ahandle(headers, bytes(body))


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
