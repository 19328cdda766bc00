"""A thread that wakes when something is due."""

from __future__ import annotations

import logging
import threading
import time

log = logging.getLogger("lineclear.worker")

_WAIT_MAX = 3600.0


class Timer:
    """Calls `due` at the earliest moment of the monotonic clock that it was told of."""

    def __init__(self, name: str) -> None:
        self._condition = threading.Condition()
        self._wake_at = float("inf")
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        self._thread.join(1.0)

    def wake_by(self, moment: float) -> None:
        """Something is due at this moment."""
        if moment < self._wake_at:
            with self._condition:
                if moment < self._wake_at:
                    self._wake_at = moment
                    self._condition.notify()

    def due(self) -> None:
        """Does what is due, and says by `wake_by` when it wants to be called again."""
        raise NotImplementedError

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._stopped and self._wake_at > time.monotonic():
                    self._condition.wait(min(self._wake_at - time.monotonic(), _WAIT_MAX))
                if self._stopped:
                    return
                self._wake_at = float("inf")
            try:
                self.due()
            except Exception:
                # A defect: without this thread, leases would end.
                log.exception("%s failed, and goes on", self._thread.name)
                self.wake_by(time.monotonic() + 1.0)
