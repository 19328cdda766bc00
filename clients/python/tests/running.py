"""Workers of tests: in a thread, or in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO

from lineclear import Client, Worker
from tests.server import PATIENCE, until, until_pulled

_ROOT = Path(__file__).parent.parent


class Running:
    """A worker that runs in a thread, until the end of the block. With a client, the block begins when the worker polls."""

    def __init__(self, worker: Worker, client: Client | None = None) -> None:
        self._worker = worker
        self._client = client
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            asyncio.run(self._worker.serve())
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Running:
        self._thread.start()
        if self._client is not None:
            until_pulled(self._client, *self._worker.kinds)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self, grace: float = PATIENCE) -> None:
        """Stops the worker, and waits for its end."""
        if self._thread.is_alive():
            self._worker.stop(grace)
        self.join()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the worker does not end"


class Child:
    """A program of `tests/children.py` in a process of its own. Its lines tell what it does."""

    def __init__(self, program: str, *arguments: str) -> None:
        line = [sys.executable, "-u", "-m", "tests.children", program, *arguments]
        path = os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])
        self.process = subprocess.Popen(
            line,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._readers = [self._read(self.process.stdout, self.lines), self._read(self.process.stderr, self.errors)]

    @staticmethod
    def _read(stream: IO[str] | None, lines: list[str]) -> threading.Thread:
        assert stream is not None

        def read() -> None:
            for line in stream:
                lines.append(line.rstrip("\n"))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def wait_for(self, line: str) -> None:
        """Waits until it has printed a line that begins so."""

        def printed() -> bool:
            assert self.process.poll() is None or self._drained(), f"{line}: {self.said()}"
            return any(one.startswith(line) for one in [*self.lines, *self.errors])

        until(printed, f"the child prints {line!r}")

    def _drained(self) -> bool:
        for reader in self._readers:
            reader.join(PATIENCE)
        return True

    def said(self) -> str:
        """All that it printed."""
        return "\n".join([*self.lines, *self.errors])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Waits for its end."""
        code = self.process.wait(PATIENCE)
        self._drained()
        return code

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
