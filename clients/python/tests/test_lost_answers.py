"""Answers that get lost between server and client, in every phase: nothing is lost, and nothing is recorded twice."""

from __future__ import annotations

import asyncio
import itertools
import threading
import unittest
from collections import Counter
from typing import Any
from unittest import mock

from lineclear import AsyncClient, Client, Job, NewJob, Worker
from lineclear.errors import NoAnswer
from lineclear.requests import Request
from lineclear.worker.api import ClaimsApi
from tests.proxy import CuttingProxy
from tests.running import Running
from tests.server import PATIENCE, Server, declare, until


class LostAnswers(unittest.TestCase):
    server: Server
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        # No lease ends within a test, so that every claim must come through.
        cls.server = Server(lease="10m")
        cls.client = cls.server.client()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.server.close()

    def setUp(self) -> None:
        self.proxy = CuttingProxy(self.server.port)
        self.ran: Counter[tuple[str, int]] = Counter()

    def tearDown(self) -> None:
        self.proxy.close()

    def worker(self, kind: str) -> Worker:
        worker = Worker(self.proxy.url, slots=10)

        @worker.kind(kind)
        def count(job: Job, n: int) -> int:
            self.ran[(job.id, job.claim_no)] += 1
            return n

        return worker

    def check(self, jobs: list[str]) -> None:
        """Each job was claimed once, ran once, and was completed once."""
        for n, job in enumerate(jobs):
            self.assertEqual(self.client.wait(job, PATIENCE), n)
            ends = [(one.claim_no, one.outcome) for one in self.client.job(job).executions]
            self.assertEqual(ends, [(1, "completed")], job)
        self.assertEqual(self.ran, Counter({(job, 1): 1 for job in jobs}))

    def enqueue(self, kind: str, count: int = 10) -> list[str]:
        return [one.id for one in self.client.enqueue_many([NewJob(kind, n, retries=0) for n in range(count)])]

    def test_claims_whose_answer_was_lost_are_given_out_again_with_the_same_numbers(self) -> None:
        self.proxy.cut_next("POST", "/api/v1/claims", times=3, containing=b'"no":')
        with Running(self.worker("lost.claims"), self.client):
            self.check(self.enqueue("lost.claims"))
        self.assertEqual(self.proxy.cut, ["POST /api/v1/claims"] * 3)

    def test_claims_of_a_lost_poll_that_goes_on_in_the_server_are_found_later(self) -> None:
        # A proxy may hide that the client of a poll has gone. The dispatcher may have begun to serve it, and give it a job after the
        # next poll asked for lost claims.
        claim, polls = ClaimsApi.claim, itertools.count(1)
        late: list[str] = []

        def with_a_late_answer(api: ClaimsApi, kinds: Any, slots: int, wait_ms: int, held: Any) -> Any:
            number = next(polls)
            if number == 1:
                raise NoAnswer("the connection was cut")
            if number == 2:
                found = claim(api, kinds, slots, 0, held)
                late.extend(self.enqueue("lost.late", 1))
                self.assertEqual([one["job"]["id"] for one in claim(api, kinds, 1, 10_000, None)[0]], late)
                return found
            return claim(api, kinds, slots, wait_ms, held)

        worker = self.worker("lost.late")
        declare(self.server.url, "lost.late")
        with mock.patch.object(ClaimsApi, "claim", with_a_late_answer), Running(worker):
            until(lambda: late, "the old poll got a job")
            self.check(late)

    def test_a_settle_whose_answer_was_lost_is_sent_again_and_recorded_once(self) -> None:
        self.proxy.cut_next("POST", "/api/v1/claims/settle", times=3)
        with Running(self.worker("lost.settles"), self.client):
            self.check(self.enqueue("lost.settles"))
        self.assertEqual(self.proxy.cut, ["POST /api/v1/claims/settle"] * 3)

    def test_steps_whose_answers_were_lost_run_once(self) -> None:
        self.proxy.cut_next("POST", "/api/v1/claims/steps", times=2)
        worker = Worker(self.proxy.url)
        charged: list[str] = []

        @worker.kind("lost.steps")
        def charge(job: Job) -> int:
            job.step("charge", lambda: charged.append(job.id))
            job.step("mail", lambda: charged.append(job.id))
            return len(charged)

        with Running(worker, self.client):
            job = self.client.enqueue("lost.steps", retries=0).id
            self.assertEqual(self.client.wait(job, PATIENCE), 2)
        self.assertEqual(len(self.client.job(job).raw["steps"]), 2)
        self.assertEqual(len(self.proxy.cut), 2)

    def test_an_enqueue_whose_answer_was_lost_makes_one_job(self) -> None:
        self.proxy.cut_next("POST", "/api/v1/jobs", times=2)
        self.proxy.cut_next("POST", "/api/v1/jobs/batch", times=1)
        with Client(self.proxy.url) as cut:
            one = cut.enqueue("lost.enqueues", 0, tags=["lost-enqueue"])
            many = cut.enqueue_many([NewJob("lost.enqueues", n, tags=["lost-enqueue"]) for n in range(1, 5)])
        self.assertEqual(len(self.proxy.cut), 3)
        self.assertEqual(self.tagged("lost-enqueue"), {one.id, *(job.id for job in many)})

    def test_an_asynchronous_enqueue_whose_answer_was_lost_makes_one_job(self) -> None:
        self.proxy.cut_next("POST", "/api/v1/jobs", times=2)

        async def enqueue() -> str:
            async with AsyncClient(self.proxy.url) as cut:
                return (await cut.enqueue("lost.enqueues", 0, tags=["lost-async"])).id

        self.assertEqual({asyncio.run(enqueue())}, self.tagged("lost-async"))
        self.assertEqual(len(self.proxy.cut), 2)

    def tagged(self, tag: str) -> set[str]:
        found = self.client.call(Request("GET", f"/api/v1/jobs?q=tag:{tag}", lambda r: r.json()["items"]))
        return {item["id"] for item in found}

    def test_a_run_whose_answer_was_lost_runs_once(self) -> None:
        self.proxy.cut_next("POST", "/api/v1/run/lost.runs", times=1)
        with Running(self.worker("lost.runs"), self.client), Client(self.proxy.url) as cut:
            self.assertEqual(cut.run("lost.runs", 7, PATIENCE), 7)
        self.assertEqual(len(self.proxy.cut), 1)
        self.assertEqual(sum(self.ran.values()), 1)

    def test_a_worker_whose_leave_is_lost_has_left(self) -> None:
        with Running(self.worker("lost.leave"), self.client) as running:
            self.check(self.enqueue("lost.leave", 1))
            worker = next(node for node in self.nodes() if node["kinds"] == ["lost.leave"])
            self.proxy.cut_next("DELETE", f"/api/v1/workers/{worker['incarnation'].rsplit(':', 1)[1]}")
        self.assertIsNone(running.error)
        self.assertEqual(len(self.proxy.cut), 1)

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.call(Request("GET", "/api/v1/nodes", lambda r: r.json()["items"]))
        return found


class LostRenewals(unittest.TestCase):
    def setUp(self) -> None:
        self.server = Server(lease="6s")
        self.client = self.server.client()
        self.proxy = CuttingProxy(self.server.port)

    def tearDown(self) -> None:
        self.proxy.close()
        self.client.close()
        self.server.close()

    def test_renewals_whose_answers_are_lost_are_sent_again_in_time(self) -> None:
        self.proxy.cut_next("POST", "/api/v1/claims/renew", times=2)
        worker = Worker(self.proxy.url)
        ran: list[int] = []
        go_on = threading.Event()

        @worker.kind("lost.renewals")
        def wait(job: Job) -> bool:
            ran.append(job.claim_no)
            go_on.wait(PATIENCE)
            return job.lost

        with Running(worker, self.client):
            job = self.client.enqueue("lost.renewals", retries=0).id
            renewals = "POST /api/v1/claims/renew"
            until(lambda: len(self.proxy.cut) == 2 and self.proxy.seen.count(renewals) >= 5, "leases are renewed")
            go_on.set()
            self.assertEqual(self.client.wait(job, PATIENCE), False)
        ends = [one.outcome for one in self.client.job(job).executions if one.outcome != "released"]
        self.assertEqual((ends, len(ran)), (["completed"], 1))


if __name__ == "__main__":
    unittest.main()
