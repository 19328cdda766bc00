"""Threads that run handlers."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from queue import SimpleQueue
from typing import Callable, Iterable, Sequence

from lineclear.worker import outcome
from lineclear.worker.claims import Claim
from lineclear.worker.outcome import Outcome

#: Called when a handler has ended.
Ended = Callable[[Claim, "Outcome | None"], None]


class SlotThreads:
    """As many threads as there were functions at once. Coroutines run on the event loop of the program."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._queue: SimpleQueue[Claim | None] = SimpleQueue()
        self._threads = 0

    def start(self, claims: Sequence[Claim], active: int) -> None:
        """Starts handlers. `active` is how many run at most, with these."""
        while self._threads < active:
            self._threads += 1
            name = f"lineclear-slot-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        for claim in claims:
            self._queue.put(claim)

    def stop(self) -> None:
        """Ends the threads when they are idle."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _work(self) -> None:
        while (claim := self._queue.get()) is not None:
            self._ended(claim, run(claim))


def run(claim: Claim) -> Outcome | None:
    """Calls a function to its end."""
    job = claim.job
    if job.cancelled:
        return outcome.stopped(job)
    claim.begin()
    try:
        return outcome.completed(claim.handler.call(job))
    except BaseException as error:  # SystemExit, too: it would end the thread, and leave the job unsettled
        return outcome.of_error(job, error)


def start_coroutines(claims: Iterable[Claim], ended: Ended) -> None:
    """Starts handlers on the event loop that calls this."""
    loop = asyncio.get_running_loop()
    for claim in claims:
        task = loop.create_task(_run(claim), name=f"lineclear-job-{claim.job.id}")
        # Not at the end of the coroutine: one that is cancelled before it begins does not run at all.
        task.add_done_callback(partial(_end, claim, ended))
        claim.loop, claim.task = loop, task
        if claim.job.cancelled:
            task.cancel()


async def _run(claim: Claim) -> Outcome | None:
    claim.begin()
    try:
        return outcome.completed(await claim.handler.call(claim.job))
    except (Exception, SystemExit) as error:
        return outcome.of_error(claim.job, error)


def _end(claim: Claim, ended: Ended, task: asyncio.Task[Outcome | None]) -> None:
    ended(claim, _outcome(claim, task))


def _outcome(claim: Claim, task: asyncio.Task[Outcome | None]) -> Outcome | None:
    if not task.cancelled():
        return None if task.exception() else task.result()
    if claim.job.cancelled:
        return outcome.stopped(claim.job)
    return outcome.of_error(claim.job, asyncio.CancelledError("the handler cancelled itself"))
