"""The examples of the README, run as they are written."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

from lineclear import Client, JobFailed
from tests.server import PATIENCE, Server

_ROOT = Path(__file__).parent.parent
_URL = "http://127.0.0.1:7171"


def _readme() -> str:
    # Tests of an installed wheel have no README beside them.
    found = _ROOT / "README.md"
    return found.read_text() if found.exists() else Path(os.environ["LINECLEAR_README"]).read_text()


class Readme(unittest.TestCase):
    server: Server
    worker: subprocess.Popen[bytes]
    worker_block: str
    client_block: str
    manifest_block: str
    push_block: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        blocks = re.findall(r"^```python\n(.*?)^```$", _readme(), re.MULTILINE | re.DOTALL)
        cls.worker_block, cls.client_block, cls.manifest_block, cls.push_block = (
            block.replace(_URL, cls.server.url) for block in blocks
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        cls.worker = subprocess.Popen([sys.executable, "-c", cls.worker_block], env=environment, stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.worker.send_signal(signal.SIGTERM)
        assert cls.worker.wait(PATIENCE) == 0
        cls.server.close()

    def run_block(self, block: str) -> tuple[dict[str, Any], list[str]]:
        names: dict[str, Any] = {}
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, "README.md", "exec"), names)
        return names, output.getvalue().splitlines()

    def test_the_worker_runs_jobs(self) -> None:
        self.assertLessEqual(len(self.worker_block.splitlines()), 35, "it fits on one screen")
        with Client(self.server.url) as client:
            output = client.run("invoice", {"customer": 7}, PATIENCE)
            self.assertRegex(output["charge"], r"^charge-\d+$")
            with self.assertRaisesRegex(JobFailed, "`customer` must be given"):
                client.run("invoice", {}, PATIENCE)
            self.assertIsNone(client.run("mail.send", "user@example.com", PATIENCE))

    def test_the_client_enqueues_and_waits(self) -> None:
        _, lines = self.run_block(self.client_block)
        self.assertRegex(lines[0], r"^\{'charge': 'charge-\d+'\}$")
        self.assertEqual(lines[1:], ["scheduled"])

    def test_the_manifest_is_put_and_runs(self) -> None:
        _, lines = self.run_block(self.manifest_block)
        self.assertRegex(lines[0], r"^nightly 20\d\d-")
        with Client(self.server.url) as client:
            self.assertIn("charge", client.wait(lines[-1], PATIENCE))

    def test_the_push_endpoint_is_made(self) -> None:
        names, _ = self.run_block(self.push_block)
        self.assertTrue(callable(names["app"]))


if __name__ == "__main__":
    unittest.main()
