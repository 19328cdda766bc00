"""A worker against the real server."""

from __future__ import annotations

import asyncio
import threading
import time
import unittest
from collections import Counter
from typing import Any

from lineclear import ApiError, Client, Job, JobCancelled, JobFailed, NewJob, Permanent, RetryIn, Snooze, WaitTimeout, Worker
from lineclear.requests import Request
from tests.running import Running
from tests.server import PATIENCE, Server, until

LEASE = 6.0


class TheWorker(unittest.TestCase):
    server: Server
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server(lease=f"{LEASE:g}s")
        cls.client = cls.server.client()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.server.close()

    def outcomes(self, job_id: str) -> list[str]:
        """How its claims ended, without those that a busy server gave back unstarted."""
        return [one.outcome for one in self.client.job(job_id).executions if one.outcome != "released"]

    def log(self, job_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.call(
            Request("GET", f"/api/v1/jobs/{job_id}/logs?limit=1000", lambda r: r.json()["items"])
        )
        return found

    def test_functions_and_coroutines_run_side_by_side(self) -> None:
        worker = Worker(self.server.url, slots=10)
        together = threading.Barrier(5, timeout=PATIENCE)

        @worker.kind("side.function")
        def function(job: Job, n: int) -> dict[str, Any]:
            together.wait()
            return {"n": n, "attempt": job.attempt}

        arrived: list[int] = []

        @worker.kind("side.coroutine")
        async def coroutine(n: int) -> int:
            arrived.append(n)
            while len(arrived) < 5:
                await asyncio.sleep(0.01)
            return n * 10

        with Running(worker, self.client):
            functions = self.client.enqueue_many([NewJob("side.function", n) for n in range(5)])
            coroutines = self.client.enqueue_many([NewJob("side.coroutine", n) for n in range(5)])
            outputs = [self.client.wait(one.id, PATIENCE) for one in functions]
            self.assertEqual(outputs, [{"n": n, "attempt": 1} for n in range(5)])
            self.assertEqual([self.client.wait(one.id, PATIENCE) for one in coroutines], [0, 10, 20, 30, 40])

    def test_an_exception_is_a_failure_and_the_job_is_tried_again(self) -> None:
        worker = Worker(self.server.url)

        @worker.kind("fails.once")
        def fails_once(job: Job) -> str:
            if job.attempt == 1:
                raise RetryIn(0, "the first time") from ValueError("inner")
            return f"attempt {job.attempt}"

        @worker.kind("fails")
        async def fails(job: Job) -> None:
            job.log("before", "warn")
            raise LookupError("no such customer")

        with Running(worker, self.client):
            once = self.client.enqueue("fails.once")
            self.assertEqual(self.client.wait(once.id, PATIENCE), "attempt 2")
            first = next(one for one in self.client.job(once.id).executions if one.outcome != "released")
            self.assertEqual((first.outcome, first.error_type, first.error_message), ("failed", "ValueError", "the first time"))
            always = self.client.enqueue("fails", retries=0)
            with self.assertRaises(JobFailed) as raised:
                self.client.wait(always.id, PATIENCE)
            self.assertEqual(raised.exception.error_type, "LookupError")
            lines = self.log(always.id)
            self.assertEqual((lines[0]["level"], lines[0]["message"]), ("WARN", "before"))
            self.assertIn("LookupError: no such customer", lines[1]["message"])
            self.assertIn("tests/test_worker.py", lines[1]["message"])

    def test_permanent_failures_and_snoozes_are_recorded_as_such(self) -> None:
        worker = Worker(self.server.url)

        @worker.kind("never")
        def never(job: Job) -> None:
            raise Permanent("wrong input")

        naps: list[str] = []

        @worker.kind("sleepy")
        def sleepy(job: Job) -> str:
            if not naps:
                naps.append(job.id)
                raise Snooze(0.1)
            return f"attempt {job.attempt}"

        with Running(worker, self.client):
            dead = self.client.enqueue("never", retries=5)
            with self.assertRaises(JobFailed):
                self.client.wait(dead.id, PATIENCE)
            self.assertEqual(self.outcomes(dead.id), ["failed"])
            snoozed = self.client.enqueue("sleepy")
            self.assertEqual(self.client.wait(snoozed.id, PATIENCE), "attempt 1")
            self.assertEqual(self.outcomes(snoozed.id), ["snoozed", "completed"])

    def test_an_output_that_cannot_be_kept_is_a_permanent_failure_and_harms_no_other_job(self) -> None:
        worker = Worker(self.server.url)
        deep: list[Any] = []
        for _ in range(100):
            deep = [deep]
        outputs: dict[str, Any] = {"set": {1}, "nan": float("nan"), "long": "x" * 70_000, "nul": "a\0b", "deep": deep, "good": 1}
        worker.kind("outputs")(lambda which: outputs[which])
        with Running(worker, self.client):
            jobs = self.client.enqueue_many([NewJob("outputs", which, retries=0) for which in outputs])
            for which, job in zip(outputs, jobs):
                if which == "good":
                    self.assertEqual(self.client.wait(job.id, PATIENCE), 1)
                    continue
                with self.assertRaises(JobFailed, msg=which) as raised:
                    self.client.wait(job.id, PATIENCE)
                self.assertRegex(raised.exception.error_message or "", "the output must|refused the outcome", which)

    def test_a_recorded_step_does_not_run_again(self) -> None:
        worker = Worker(self.server.url)
        runs: Counter[str] = Counter()

        @worker.kind("steps.function")
        def function(job: Job) -> list[Any]:
            def charge() -> dict[str, int]:
                runs["charge"] += 1
                return {"charged": runs["charge"]}

            def mail() -> str:
                runs["mail"] += 1
                if runs["mail"] == 1:
                    raise RetryIn(0, "no mail server")
                return "sent"

            return [job.step("charge", charge), job.step("mail", mail)]

        @worker.kind("steps.coroutine")
        async def coroutine(job: Job) -> int:
            async def count() -> int:
                runs["count"] += 1
                return runs["count"]

            counted = await job.astep("count", count)
            if job.attempt == 1:
                raise RetryIn(0)
            return counted

        with Running(worker, self.client):
            one = self.client.enqueue("steps.function")
            self.assertEqual(self.client.wait(one.id, PATIENCE), [{"charged": 1}, "sent"])
            self.assertEqual((runs["charge"], runs["mail"]), (1, 2))
            steps = {step["name"]: step for step in self.client.job(one.id).raw["steps"]}
            self.assertEqual(set(steps), {"charge", "mail"})
            two = self.client.enqueue("steps.coroutine")
            self.assertEqual(self.client.wait(two.id, PATIENCE), 1)
            self.assertEqual(runs["count"], 1)

    def test_a_cancelled_job_stops_whether_it_is_a_function_or_a_coroutine(self) -> None:
        worker = Worker(self.server.url)
        began = threading.Semaphore(0)

        @worker.kind("endless.function")
        def function(job: Job) -> None:
            began.release()
            while not job.cancelled:
                time.sleep(0.01)
            job.check()

        @worker.kind("endless.coroutine")
        async def coroutine(job: Job) -> None:
            began.release()
            await asyncio.sleep(600)

        with Running(worker, self.client):
            jobs = [self.client.enqueue(kind) for kind in ("endless.function", "endless.coroutine")]
            for _ in jobs:
                self.assertTrue(began.acquire(timeout=PATIENCE))
            for job in jobs:
                self.assertEqual(self.client.cancel(job.id), "asked")
            for job in jobs:
                with self.assertRaises(JobCancelled):
                    self.client.wait(job.id, PATIENCE)
                self.assertEqual(self.outcomes(job.id), ["cancelled"])

    def test_a_handler_is_out_of_time_even_if_it_does_not_listen(self) -> None:
        worker = Worker(self.server.url)
        over = threading.Event()

        @worker.kind("slow.function")
        def function(job: Job) -> str:
            over.wait(PATIENCE)
            return "too late"

        @worker.kind("slow.coroutine")
        async def coroutine(job: Job) -> None:
            await asyncio.sleep(600)

        with Running(worker, self.client):
            jobs = [self.client.enqueue(kind, timeout=0.3, retries=0) for kind in ("slow.function", "slow.coroutine")]
            for job in jobs:
                with self.assertRaises(JobFailed):
                    self.client.wait(job.id, PATIENCE)
                self.assertEqual(self.outcomes(job.id), ["timed_out"])
            over.set()

    def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(self) -> None:
        worker = Worker(self.server.url)

        @worker.kind("blocks")
        async def blocks(job: Job) -> str:
            time.sleep(1.5 * LEASE)
            return "kept" if not job.lost else "lost"

        with Running(worker, self.client):
            job = self.client.enqueue("blocks")
            self.assertEqual(self.client.wait(job.id, PATIENCE), "kept")
            self.assertEqual(self.outcomes(job.id), ["completed"])

    def test_progress_is_shown_while_the_job_runs_and_lines_come_before_its_end(self) -> None:
        worker = Worker(self.server.url)
        go_on = threading.Event()

        @worker.kind("reports")
        def reports(job: Job) -> None:
            job.progress(0.25, "loading")
            job.log("first")
            go_on.wait(PATIENCE)
            for n in range(50):
                job.log(f"line {n}", "debug")

        with Running(worker, self.client):
            job = self.client.enqueue("reports")
            until(lambda: [line["message"] for line in self.log(job.id)] == ["first"], "the first line arrives while the job runs")
            go_on.set()
            self.client.wait(job.id, PATIENCE)
            lines = [line["message"] for line in self.log(job.id)]
            self.assertEqual(lines, ["first", *(f"line {n}" for n in range(50))])

    def test_a_worker_that_is_drained_takes_no_jobs_until_it_is_resumed(self) -> None:
        worker = Worker(self.server.url, name="drained")
        began: list[int] = []
        go_on = threading.Event()

        @worker.kind("drained")
        def drained(n: int) -> int:
            began.append(n)
            go_on.wait(PATIENCE)
            return n

        def operate(action: str) -> None:
            nodes = self.client.call(Request("GET", "/api/v1/nodes", lambda r: r.json()["items"]))
            node = next(node for node in nodes if node["name"] == "drained")
            self.client.call(Request("POST", f"/api/v1/nodes/{node['id']}/{action}", lambda r: None))

        with Running(worker, self.client), self.assertLogs("lineclear.worker", "INFO") as logged:
            first = self.client.enqueue("drained", 1)
            until(lambda: began == [1], "the first job runs")
            operate("drain")
            until(lambda: any("drains" in line for line in logged.output), "a renewal tells the worker")
            second = self.client.enqueue("drained", 2)
            go_on.set()
            self.assertEqual(self.client.wait(first.id, PATIENCE), 1)
            with self.assertRaises(WaitTimeout):
                self.client.wait(second.id, 2.0)
            self.assertEqual(began, [1])
            operate("resume")
            self.assertEqual(self.client.wait(second.id, PATIENCE), 2)

    def test_an_idle_worker_learns_that_it_is_drained_and_asks_for_no_jobs(self) -> None:
        worker = Worker(self.server.url, name="idle")
        worker.kind("idle")(lambda n: n)

        def operate(action: str) -> None:
            nodes = self.client.call(Request("GET", "/api/v1/nodes", lambda r: r.json()["items"]))
            node = next(node for node in nodes if node["name"] == "idle")
            self.client.call(Request("POST", f"/api/v1/nodes/{node['id']}/{action}", lambda r: None))

        with Running(worker, self.client), self.assertLogs("lineclear.worker", "INFO") as logged:
            operate("drain")
            # It holds no claim, so no renewal tells it. Its poll would wait for 25 seconds.
            until(lambda: any("drains" in line for line in logged.output), "its poll tells the worker", 20.0)
            job = self.client.enqueue("idle", 1)
            with self.assertRaises(WaitTimeout):
                self.client.wait(job.id, 1.0)
            operate("resume")
            self.assertEqual(self.client.wait(job.id, PATIENCE), 1)

    def test_two_workers_run_two_thousand_jobs_once_each(self) -> None:
        ran: Counter[str] = Counter()
        lock = threading.Lock()

        def count(job: Job) -> None:
            with lock:
                ran[job.id] += 1

        workers = [Worker(self.server.url, slots=100), Worker(self.server.url, slots=7)]
        for worker in workers:
            worker.kind("counted")(count)
        with Running(workers[0], self.client), Running(workers[1], self.client):
            ids = [
                one.id
                for _ in range(2)
                for one in self.client.enqueue_many([NewJob("counted", n) for n in range(1_000)])
            ]
            until(lambda: len(ran) == 2_000, "all of them have run")
            for job_id in ids[-3:]:
                self.client.wait(job_id, PATIENCE)
        self.assertEqual(set(ran), set(ids))
        self.assertEqual(set(ran.values()), {1})

    def test_a_worker_that_may_not_work_says_so_and_ends(self) -> None:
        server = Server("--auth", "token")
        self.addCleanup(server.close)
        token = server.command("token", "create", "reader", "--scope", "read")["token"]
        for wrong, status in (("lc_wrong", 401), (token, 403)):
            worker = Worker(server.url, token=wrong)
            worker.kind("echo")(lambda job: None)
            with Running(worker) as running:
                running.join()
            assert isinstance(running.error, ApiError)
            self.assertEqual(running.error.status, status)

    def test_a_worker_with_a_token_of_its_scope_works(self) -> None:
        server = Server("--auth", "token")
        self.addCleanup(server.close)
        token = server.command("token", "create", "worker", "--scope", "worker")["token"]
        admin = server.command("token", "create", "admin", "--scope", "admin")["token"]
        worker = Worker(server.url, token=token)
        worker.kind("echo")(lambda input: input)
        with Running(worker), Client(server.url, admin) as client:
            self.assertEqual(client.run("echo", [7], PATIENCE), [7])


if __name__ == "__main__":
    unittest.main()
