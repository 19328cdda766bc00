"""Workers that are stopped and killed while they work."""

from __future__ import annotations

import signal
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from lineclear import Client, NewJob, Worker
from lineclear.worker.api import ClaimsApi
from tests.running import Child, Running
from tests.server import PATIENCE, Server, until, until_pulled


class Crashes(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.client: Client = self.server.client()
        self.gate = self.server.folder / "gate"

    def tearDown(self) -> None:
        self.client.close()
        self.server.close()

    def recorded(self, job_id: str) -> list[tuple[int, str]]:
        """How its claims ended, without those that a busy server gave back unstarted."""
        ends = [(one.claim_no, one.outcome) for one in self.client.job(job_id).executions]
        return [end for end in ends if end[1] != "released"]

    def stopped(self, child: Child) -> None:
        """Waits until the kernel has stopped the process."""
        stat = Path(f"/proc/{child.process.pid}/stat")
        until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "the process is stopped")

    def test_the_settle_of_a_process_that_was_stopped_past_its_lease_gets_409(self) -> None:
        with Child("freezes_bare", self.server.url, "frozen") as frozen:
            until_pulled(self.client, "frozen")
            job = self.client.enqueue("frozen", 1)
            frozen.wait_for(f"freezes {job.id}")
            self.stopped(frozen)
            other = Worker(self.server.url)
            other.kind("frozen")(lambda job: {"by": "other"})
            with Running(other):
                self.assertEqual(self.client.wait(job.id, PATIENCE), {"by": "other"})
            frozen.signal(signal.SIGCONT)
            self.assertEqual(frozen.wait(), 0, frozen.said())
            self.assertIn("settled 409 stale_claim", frozen.lines)
        self.assertEqual(self.client.job(job.id).output, {"by": "other"})
        self.assertEqual([end for _, end in self.recorded(job.id)].count("completed"), 1)

    def test_a_worker_that_was_stopped_past_its_lease_changes_nothing_when_it_is_resumed(self) -> None:
        with Child("freezes", self.server.url, "frozen") as frozen:
            until_pulled(self.client, "frozen")
            job = self.client.enqueue("frozen", str(self.gate))
            frozen.wait_for(f"freezes {job.id}")
            self.stopped(frozen)
            other = Worker(self.server.url)
            other.kind("frozen")(lambda job: {"by": "other"})
            with Running(other):
                self.assertEqual(self.client.wait(job.id, PATIENCE), {"by": "other"})
            before = self.recorded(job.id)
            self.gate.touch()
            frozen.signal(signal.SIGCONT)
            frozen.wait_for(f"thaws {job.id}")
            frozen.signal(signal.SIGTERM)
            self.assertEqual(frozen.wait(), 0, frozen.said())
            # Its clock told it, or the server did: by a renewal, or by 409 for its result.
            told = ("is lost", "stale_claim", "could not be renewed in time")
            self.assertTrue(any(word in frozen.said() for word in told), frozen.said())
        self.assertEqual(self.client.job(job.id).output, {"by": "other"})
        self.assertEqual([end for _, end in self.recorded(job.id)].count("completed"), 1)
        self.assertEqual(len(self.recorded(job.id)), len(before))

    def test_a_job_whose_answer_is_read_after_its_lease_does_not_begin(self) -> None:
        claim = ClaimsApi.claim
        waits, is_over = threading.Event(), threading.Event()
        ran: list[tuple[str, int]] = []

        def read_late(api: ClaimsApi, *ask: Any) -> Any:
            answer = claim(api, *ask)
            if answer[0] and not waits.is_set():
                waits.set()
                self.assertTrue(is_over.wait(PATIENCE))
            return answer

        late = Worker(self.server.url)
        late.kind("late")(lambda job: ran.append((job.id, job.claim_no)))
        with mock.patch.object(ClaimsApi, "claim", read_late), Running(late, self.client):
            self.gate.touch()
            job = self.client.enqueue("late", str(self.gate)).id
            until(waits.is_set, "the answer waits")
            with Child("works", self.server.url, "late", "other") as other:
                self.assertEqual(self.client.wait(job, PATIENCE)["by"], "other")
                other.signal(signal.SIGTERM)
                self.assertEqual(other.wait(), 0, other.said())
            is_over.set()
            # It goes on with other jobs.
            following = self.client.enqueue("late").id
            self.client.wait(following, PATIENCE)
        self.assertEqual({one for one, _ in ran}, {following})

    def test_the_jobs_of_a_killed_worker_run_elsewhere(self) -> None:
        with Child("works", self.server.url, "gated", "killed") as killed:
            until_pulled(self.client, "gated")
            jobs = [one.id for one in self.client.enqueue_many([NewJob("gated", str(self.gate)) for _ in range(4)])]
            for job in jobs:
                killed.wait_for(f"begins {job}")
            killed.signal(signal.SIGKILL)
            killed.wait()
        with Child("works", self.server.url, "gated", "second") as second:
            for job in jobs:
                second.wait_for(f"begins {job}")
            self.gate.touch()
            outputs = [self.client.wait(job, PATIENCE)["by"] for job in jobs]
            self.assertEqual(outputs, ["second"] * 4)
        for job in jobs:
            self.assertEqual([end for _, end in self.recorded(job)], ["lost", "completed"])


if __name__ == "__main__":
    unittest.main()
