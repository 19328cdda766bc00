"""A worker that pulls jobs from a server."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import threading
from queue import SimpleQueue

from lineclear import address
from lineclear.errors import ApiError
from lineclear.worker.claims import STOP_SECONDS
from lineclear.worker.handlers import Handlers
from lineclear.worker.session import LAST_RESULTS_SECONDS, Session, Settings


class Worker(Handlers):
    """Runs jobs of the kinds that it has handlers for.

        worker = Worker("http://127.0.0.1:7171", slots=20)

        @worker.kind("invoice")
        def invoice(job: Job, order: int) -> dict[str, Any]:
            ...

        worker.run()

    `slots` is how many handlers run at once, each function in a thread, coroutines on the event loop. `grace` is how
    many seconds handlers may run on when the worker stops. Without a `url`, it only serves `lineclear.push`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        slots: int = 20,
        name: str | None = None,
        grace: float = 30.0,
        wait: float = 25.0,
        ssl_context: ssl.SSLContext | None = None,
        insecure_http: bool = False,
    ) -> None:
        super().__init__()
        if not 1 <= slots <= 1_000:
            raise ValueError("`slots` must be 1 to 1,000; start several processes for more")
        if not 0 <= wait <= 60:
            raise ValueError("`wait` must be 0 to 60 seconds")
        self._settings: Settings | None = None
        if url is not None:
            where = address.parse(url, token, insecure_http)
            self._settings = Settings(
                where, token, ssl_context, name or socket.gethostname(), slots, grace, wait
            )
        #: How to stop: after so many seconds of grace, or because of an error.
        self._stop_requests: SimpleQueue[float | None | ApiError] = SimpleQueue()

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, then lets handlers finish; a second signal stops them. Call it on the main thread."""

        def stop(number: int, frame: object) -> None:
            # Only reentrant calls: the signal may have interrupted any code of this thread, this function included.
            stop_asked.append(True)
            self._stop_requests.put(None if len(stop_asked) == 1 else 0.0)

        async def serve() -> None:
            loop = asyncio.get_running_loop()
            for number in before:
                # The system may give the second of two signals to another thread: this one wakes for it only if its loop does. Not on Windows.
                with contextlib.suppress(NotImplementedError):
                    loop.add_signal_handler(number, lambda: None)
                signal.signal(number, stop)
            await self.serve()

        stop_asked: list[bool] = []
        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            asyncio.run(serve())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def serve(self) -> None:
        """Works until `stop`. Coroutines run on this event loop. If this is cancelled, handlers are stopped."""
        if self._settings is None:
            raise ValueError("`url` must be given to a worker that pulls jobs")
        if not self.kinds:
            raise ValueError("a worker must have a handler: @worker.kind(…)")
        loop = asyncio.get_running_loop()
        over: asyncio.Future[ApiError | None] = loop.create_future()

        def end(error: ApiError | None) -> None:
            if not over.done():
                over.set_result(error)

        ended = lambda error: loop.call_soon_threadsafe(end, error)  # noqa: E731
        session = Session(self._settings, self, self._stop_requests, loop, ended)
        threading.Thread(target=session.live, name="lineclear-worker", daemon=True).start()
        try:
            error = await asyncio.shield(over)
        except asyncio.CancelledError:
            self.stop(grace=0.0)
            await asyncio.wait([over], timeout=STOP_SECONDS + LAST_RESULTS_SECONDS)
            raise
        if error is not None:
            raise error

    def stop(self, grace: float | None = None) -> None:
        """Stops the worker, from any thread: handlers may run on for `grace` seconds, by default those of the worker."""
        self._stop_requests.put(None if grace is None else float(grace))
