"""Servers that are restarted, and databases that take no writes, while workers work."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
import unittest
from collections import Counter

from lineclear import Client, Job, NewJob, Worker
from tests.proxy import CuttingProxy
from tests.running import Child, Running
from tests.server import PATIENCE, Server, until, until_pulled

LEASE = 2.0


class Outages(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server()
        self.client: Client = self.server.client()
        #: How often the handler of each claim ran.
        self.ran: Counter[tuple[str, int]] = Counter()

    def tearDown(self) -> None:
        self.client.close()
        self.server.close()

    def enqueue(self, kind: str, count: int) -> list[str]:
        return [one.id for one in self.client.enqueue_many([NewJob(kind, n, retries=0) for n in range(count)])]

    def check(self, jobs: list[str]) -> None:
        """Each claim ran once at most, and each job was completed once, with its own output."""
        for n, job_id in enumerate(jobs):
            self.assertEqual(self.client.wait(job_id, PATIENCE), n)
            ends = [one.outcome for one in self.client.job(job_id).executions]
            self.assertEqual(ends.count("completed"), 1, ends)
        self.assertEqual(set(self.ran.values()), {1})

    def test_a_server_that_is_killed_and_restarted_costs_no_job(self) -> None:
        worker = Worker(self.server.url, slots=10)

        @worker.kind("worked")
        def worked(job: Job, n: int) -> int:
            self.ran[(job.id, job.claim_no)] += 1
            time.sleep(0.02)
            return n

        with Running(worker, self.client):
            jobs = self.enqueue("worked", 200)
            for _ in range(2):
                seen = len(self.ran)
                until(lambda: len(self.ran) > seen + 40, "jobs run")
                self.server.end(signal.SIGKILL)
                self.server.start()
            self.check(jobs)

    def test_a_database_that_takes_no_writes_for_longer_than_a_lease_costs_no_job(self) -> None:
        worker = Worker(self.server.url, slots=10)

        @worker.kind("written")
        def written(job: Job, n: int) -> int:
            self.ran[(job.id, job.claim_no)] += 1
            job.sleep(0.05)
            return n

        with Running(worker, self.client):
            jobs = self.enqueue("written", 150)
            until(lambda: len(self.ran) > 20, "jobs run")
            with contextlib.closing(sqlite3.connect(self.server.folder / "jobs.db", isolation_level=None)) as database:
                until(lambda: _locked(database), "the file is locked")
                later = time.monotonic() + 2 * LEASE
                until(lambda: time.monotonic() > later, "two leases have passed")
                database.execute("rollback")
            self.check(jobs)


class Restart(unittest.TestCase):
    def test_a_handler_goes_on_while_its_server_is_restarted(self) -> None:
        # A restart takes less time than this lease, on a busy machine, too.
        server = Server(lease="15s")
        self.addCleanup(server.close)
        proxy = CuttingProxy(server.port)
        self.addCleanup(proxy.close)
        gate = server.folder / "gate"
        with server.client() as client, Child("works", proxy.url, "gated") as child:
            until_pulled(client, "gated")
            job = client.enqueue("gated", str(gate))
            child.wait_for(f"begins {job.id} 1")
            server.end(signal.SIGTERM)
            server.start()
            seen = len(proxy.seen)
            until(lambda: "POST /api/v1/claims/renew" in proxy.seen[seen:], "the lease is renewed")
            gate.touch()
            self.assertEqual(client.wait(job.id, PATIENCE)["pid"], child.process.pid)
            ends = [(one.claim_no, one.outcome) for one in client.job(job.id).executions]
            self.assertEqual(ends, [(1, "completed")])


def _locked(database: sqlite3.Connection) -> bool:
    """Takes the file's only right to write."""
    try:
        database.execute("begin immediate")
        return True
    except sqlite3.OperationalError:
        return False


if __name__ == "__main__":
    unittest.main()
