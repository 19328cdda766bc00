"""A real server in a process of its own, on SQLite in a temporary folder."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Callable, TypeVar

from lineclear import Client, address
from lineclear.transport import Pool
from lineclear.worker.api import ClaimsApi, Identity

T = TypeVar("T")

#: How long a test waits for what must happen. Generous: the machine may be busy.
PATIENCE = 60.0


def until(condition: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
    """Waits for a condition, and returns its first true value."""
    ends_at = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > ends_at:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(0.02)


class Server:
    """`lineclear serve`. A lease of two seconds, so that tests need not wait for half a minute."""

    def __init__(self, *options: str, lease: str = "2s", submitters: dict[str, dict[str, Any]] | None = None) -> None:
        self._binary = os.environ["LINECLEAR_BIN"]
        self.folder = Path(tempfile.mkdtemp(prefix="lineclear-python-"))
        self._options = ["--lease", lease, "--log", "info", *options]
        self.port = _free_port()
        self._submitters = submitters or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """No settings of the user who runs the tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LINECLEAR_")}
        made = {"XDG_CONFIG_HOME": str(self.folder / "none"), "LINECLEAR_DB": str(self.folder / "jobs.db")}
        if self._submitters:
            # They reach the server where it listens.
            ours = {name: {"callback_url": self.url, **entry} for name, entry in self._submitters.items()}
            made["LINECLEAR_SUBMITTER"] = json.dumps(ours)
        return {**kept, **made}

    def command(self, *arguments: str) -> Any:
        """Runs a command of the binary on the same database, and reads its JSON."""
        line = [self._binary, *arguments, "--json"]
        done = subprocess.run(line, cwd=self.folder, env=self.environment(), capture_output=True, check=True)
        return json.loads(done.stdout)

    def start(self) -> None:
        """Starts it, on the port that it had before."""
        self._starts += 1
        log = self.folder / f"server-{self._starts}.log"
        line = [self._binary, "serve", "--port", str(self.port), *self._options]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                line, cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        process = self._process

        def listens() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"the server has ended:\n{log.read_text()}")
            return re.search(r"^API +http", log.read_text(), re.MULTILINE) is not None

        until(listens, "the server listens")

    def end(self, number: int = signal.SIGTERM) -> None:
        """Ends it by a signal."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            self._process = None

    def close(self) -> None:
        """Ends it, and removes its files."""
        self.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self) -> Client:
        """A client of it."""
        return Client(self.url, retry_for=PATIENCE)


def _free_port() -> int:
    """Below the ports that the kernel gives to connections: one of those could take it while the server is down."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def declare(url: str, *kinds: str) -> None:
    """Makes kinds known to a server, as the first poll of a worker does."""
    pool = Pool(address.parse(url, None, True), None, None)
    with contextlib.closing(pool):
        api = ClaimsApi(pool, Identity(str(uuid.uuid4()), "declares"))
        api.claim(kinds, 1, 0, None)
        api.leave()


def until_pulled(client: Client, *kinds: str) -> None:
    """Waits until jobs of these kinds go to workers that pull: before the first poll, a node claims and parks them."""

    def is_pulled(kind: str) -> bool:
        probe = client.enqueue(kind, delay=3600)
        route = str(client.job(probe.id).raw["route"])
        client.cancel(probe.id)
        return route == f"pull.{kind}"

    for kind in kinds:
        until(lambda: is_pulled(kind), f"jobs of {kind} are pulled")
