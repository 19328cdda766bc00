"""Workers that are told to stop."""

from __future__ import annotations

import asyncio
import signal
import time
import unittest

from lineclear import Client, Job, Worker
from tests.running import Child, Running
from tests.server import PATIENCE, Server, until_pulled


class Shutdown(unittest.TestCase):
    server: Server
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        # A lease that does not end within a test: only a release can give a job to the next worker.
        cls.server = Server(lease="10m")
        cls.client = cls.server.client()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.server.close()

    def outcomes(self, job_id: str) -> list[str]:
        return [one.outcome for one in self.client.job(job_id).executions]

    def test_a_worker_that_gets_sigterm_finishes_its_jobs_and_takes_no_more(self) -> None:
        gate = self.server.folder / "term"
        with Child("works", self.server.url, "term") as child:
            until_pulled(self.client, "term")
            job = self.client.enqueue("term", str(gate))
            child.wait_for(f"begins {job.id}")
            child.signal(signal.SIGTERM)
            child.wait_for("INFO the worker stops")
            later = self.client.enqueue("term", str(gate))
            gate.touch()
            self.assertEqual(child.wait(), 0, child.said())
            self.assertIn("left", child.lines)
        self.assertEqual(self.outcomes(job.id), ["completed"])
        self.assertIn(self.client.job(later.id).state, ("queued", "ready", "parked"))
        self.assertNotIn("completed", self.outcomes(later.id))

    def test_an_idle_worker_leaves_at_once(self) -> None:
        with Child("works", self.server.url, "idle") as child:
            until_pulled(self.client, "idle")
            self.client.wait(self.client.enqueue("idle", "/").id, PATIENCE)
            began = time.monotonic()
            child.signal(signal.SIGINT)
            self.assertEqual(child.wait(), 0, child.said())
            self.assertLess(time.monotonic() - began, 15.0)

    def test_a_job_whose_handler_does_not_stop_is_released_when_the_grace_is_over(self) -> None:
        with Child("stubborn", self.server.url, "stubborn") as child:
            until_pulled(self.client, "stubborn")
            job = self.client.enqueue("stubborn")
            child.wait_for(f"begins {job.id} 1")
            child.signal(signal.SIGTERM)
            self.assertEqual(child.wait(), 0, child.said())
        self.assertEqual(self.outcomes(job.id), ["released"])
        worker = Worker(self.server.url)
        worker.kind("stubborn")(lambda job: "done")
        with Running(worker):
            self.assertEqual(self.client.wait(job.id, PATIENCE), "done")

    def test_a_second_signal_does_not_wait_for_handlers(self) -> None:
        gate = self.server.folder / "never"
        with Child("works", self.server.url, "twice") as child:
            until_pulled(self.client, "twice")
            job = self.client.enqueue("twice", str(gate))
            child.wait_for(f"begins {job.id} 1")
            began = time.monotonic()
            child.signal(signal.SIGTERM)
            child.signal(signal.SIGINT)
            self.assertEqual(child.wait(), 0, child.said())
            # The grace is twenty seconds.
            self.assertLess(time.monotonic() - began, 15.0)
        self.assertEqual(self.outcomes(job.id), ["released"])

    def test_a_program_whose_serve_is_cancelled_releases_its_jobs(self) -> None:
        worker = Worker(self.server.url)
        began = asyncio.Event()

        @worker.kind("cancelled.serve")
        async def endless(job: Job) -> None:
            began.set()
            await asyncio.sleep(600)

        async def program() -> str:
            serving = asyncio.ensure_future(worker.serve())
            await asyncio.to_thread(until_pulled, self.client, "cancelled.serve")
            job = self.client.enqueue("cancelled.serve")
            await asyncio.wait_for(began.wait(), PATIENCE)
            serving.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await serving
            return job.id

        self.assertEqual(self.outcomes(asyncio.run(program())), ["released"])


if __name__ == "__main__":
    unittest.main()
