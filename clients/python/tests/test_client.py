"""The clients against the real server."""

from __future__ import annotations

import asyncio
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone

from lineclear import (
    ApiError,
    AsyncClient,
    Client,
    JobCancelled,
    JobFailed,
    NewJob,
    NotFound,
    Permanent,
    Unavailable,
    WaitTimeout,
    Worker,
    schedule,
)
from tests.running import Running
from tests.server import PATIENCE, Server, until


class TheClient(unittest.TestCase):
    server: Server
    client: Client
    running: Running

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.client = cls.server.client()
        worker = Worker(cls.server.url, slots=8)
        worker.kind("echo")(lambda input: input)

        @worker.kind("refuse")
        def refuse(why: str) -> None:
            raise Permanent(why)

        cls.running = Running(worker, cls.client)
        cls.running.__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.running.stop()
        cls.client.close()
        cls.server.close()

    def test_an_enqueued_job_runs_and_its_output_is_waited_for(self) -> None:
        enqueued = self.client.enqueue("echo", {"order": 7, "text": "Ω"})
        self.assertEqual(enqueued.placed, "inserted")
        self.assertEqual(self.client.wait(enqueued.id, PATIENCE), {"order": 7, "text": "Ω"})
        job = self.client.job(enqueued.id)
        self.assertEqual((job.state, job.kind, job.input), ("completed", "echo", {"order": 7, "text": "Ω"}))
        self.assertEqual([one.outcome for one in job.executions if one.is_final], ["completed"])
        assert job.created_at is not None and job.finished_at is not None
        self.assertGreaterEqual(job.finished_at, job.created_at)

    def test_many_jobs_are_enqueued_all_or_none(self) -> None:
        enqueued = self.client.enqueue_many(NewJob("echo", n) for n in range(100))
        self.assertEqual([self.client.wait(one.id, PATIENCE) for one in enqueued[:3]], [0, 1, 2])
        self.assertEqual(len({one.id for one in enqueued}), 100)
        with self.assertRaises(ApiError) as refused:
            self.client.enqueue_many([NewJob("parked", unique_key="all-or-none"), NewJob("no such kind!")])
        self.assertEqual(refused.exception.fields[0]["pointer"], "/jobs/1/kind")
        self.assertEqual(self.client.enqueue("parked", unique_key="all-or-none").placed, "inserted")

    def test_every_field_of_a_job_arrives(self) -> None:
        due = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=2)
        first = self.client.enqueue(
            "parked", due_at=due, priority=5, unique_key="fields", retries=2, timeout=90, tags=["b", "a"], limit_key="l"
        )
        job = self.client.job(first.id)
        self.assertEqual((job.state, job.due_at), ("scheduled", due))
        self.assertEqual((job.raw["tags"], job.raw["limit_key"]), (["b", "a"], "l"))
        self.assertEqual(self.client.enqueue("parked", unique_key="fields").placed, "existing")
        later = self.client.job(self.client.enqueue("parked", delay=timedelta(minutes=5)).id)
        assert later.due_at is not None and later.created_at is not None
        self.assertAlmostEqual((later.due_at - later.created_at).total_seconds(), 300, delta=1)

    def test_the_same_idempotency_key_enqueues_once(self) -> None:
        ids = {self.client.enqueue("parked", 1, delay=3600, idempotency_key="once").id for _ in range(3)}
        self.assertEqual(len(ids), 1)

    def test_a_job_that_failed_or_was_cancelled_has_no_output(self) -> None:
        failed = self.client.enqueue("refuse", "no such customer")
        with self.assertRaises(JobFailed) as raised:
            self.client.wait(failed.id, PATIENCE)
        self.assertEqual(raised.exception.error_message, "no such customer")
        self.assertEqual(raised.exception.job.state, "dead")
        later = self.client.enqueue("echo", delay=3600)
        self.assertEqual(self.client.cancel(later.id), "cancelled")
        with self.assertRaises(JobCancelled):
            self.client.wait(later.id, PATIENCE)

    def test_a_wait_ends_in_time_and_the_job_goes_on(self) -> None:
        later = self.client.enqueue("echo", delay=3600)
        began = time.monotonic()
        with self.assertRaises(WaitTimeout) as raised:
            self.client.wait(later.id, 1.0)
        self.assertIsInstance(raised.exception, TimeoutError)
        self.assertGreaterEqual(time.monotonic() - began, 0.9)
        self.assertEqual(self.client.job(later.id).state, "scheduled")

    def test_run_returns_the_output_or_raises(self) -> None:
        self.assertEqual(self.client.run("echo", [1, 2], PATIENCE), [1, 2])
        with self.assertRaises(JobFailed):
            self.client.run("refuse", "no", PATIENCE)
        with self.assertRaises(WaitTimeout):
            self.client.run("nobody-runs-this", None, 0.5)

    def test_what_does_not_exist_is_not_found(self) -> None:
        with self.assertRaises(NotFound) as raised:
            self.client.job("999999999")
        self.assertEqual((raised.exception.status, raised.exception.code), (404, "not_found"))
        with self.assertRaises(ApiError):
            self.client.job("../nodes")

    def test_a_server_that_is_away_is_tried_until_the_time_is_over(self) -> None:
        with Client("http://127.0.0.1:9", retry_for=0.5) as nowhere:
            began = time.monotonic()
            with self.assertRaises(Unavailable):
                nowhere.enqueue("echo")
            self.assertLess(time.monotonic() - began, 10.0)

    def test_threads_share_a_client(self) -> None:
        outputs: list[int] = []

        def enqueue(n: int) -> None:
            outputs.append(self.client.wait(self.client.enqueue("echo", n).id, PATIENCE))

        threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(sorted(outputs), list(range(20)))

    def test_manifests_are_put_listed_paused_run_and_deleted(self) -> None:
        manifests = self.client.manifests
        nightly = schedule.cron("30 2 * * *", tz="Europe/Berlin")
        self.assertEqual(manifests.put("nightly", "echo", schedule=nightly, input={"n": 1}, retries=1), "created")
        self.assertEqual(manifests.put("nightly", "echo", schedule=nightly, input={"n": 1}, retries=1), "unchanged")
        self.assertEqual(manifests.put("nightly", "echo", schedule=nightly, input={"n": 2}), "updated")
        found = manifests.get("nightly")
        assert found.manifest is not None
        self.assertEqual((found.manifest["kind"], found.manifest["input"]), ("echo", {"n": 2}))
        self.assertIsNotNone(found.next_due_at)
        self.assertIn("nightly", [one.key for one in manifests.list()])
        self.assertEqual(self.client.wait(manifests.run("nightly"), PATIENCE), {"n": 2})
        self.assertEqual(self.client.wait(manifests.run("nightly", input=[3]), PATIENCE), [3])
        manifests.pause("nightly")
        until(lambda: manifests.get("nightly").next_due_at is None or not (manifests.get("nightly").manifest or {}).get("enabled", True), "it is paused")
        manifests.resume("nightly")
        manifests.delete("nightly")
        with self.assertRaises(NotFound):
            manifests.get("nightly")

    def test_the_asynchronous_client_does_the_same(self) -> None:
        async def all_of_it() -> None:
            async with AsyncClient(self.server.url) as client:
                enqueued = await client.enqueue("echo", "Ω", priority=3)
                self.assertEqual(await client.wait(enqueued.id, PATIENCE), "Ω")
                self.assertEqual((await client.job(enqueued.id)).state, "completed")
                many = await client.enqueue_many([NewJob("echo", n) for n in range(50)])
                outputs = await asyncio.gather(*(client.wait(one.id, PATIENCE) for one in many))
                self.assertEqual(outputs, list(range(50)))
                self.assertEqual(await client.run("echo", {"a": 1}, PATIENCE), {"a": 1})
                with self.assertRaises(JobFailed):
                    await client.run("refuse", "no", PATIENCE)
                with self.assertRaises(NotFound):
                    await client.job("999999999")
                later = await client.enqueue("echo", delay=3600)
                with self.assertRaises(WaitTimeout):
                    await client.wait(later.id, 0.5)
                self.assertEqual(await client.cancel(later.id), "cancelled")
                put = await client.manifests.put("hourly", "echo", schedule=schedule.every("1h"), input=5)
                self.assertEqual(put, "created")
                self.assertIn("hourly", [one.key async for one in client.manifests.list()])
                self.assertEqual(await client.wait(await client.manifests.run("hourly"), PATIENCE), 5)
                await client.manifests.pause("hourly")
                await client.manifests.resume("hourly")
                self.assertEqual((await client.manifests.get("hourly")).key, "hourly")
                await client.manifests.delete("hourly")

        asyncio.run(all_of_it())

    def test_a_cancelled_call_leaves_the_client_usable(self) -> None:
        async def cancel() -> None:
            async with AsyncClient(self.server.url) as client:
                later = await client.enqueue("echo", delay=3600)
                waiting = asyncio.ensure_future(client.wait(later.id))
                await asyncio.sleep(0.2)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
                self.assertEqual((await client.job(later.id)).state, "scheduled")

        asyncio.run(cancel())

    def test_an_asynchronous_client_tries_a_server_that_is_away(self) -> None:
        async def nowhere() -> None:
            async with AsyncClient("http://127.0.0.1:9", retry_for=0.5) as client:
                with self.assertRaises(Unavailable):
                    await client.enqueue("echo")

        asyncio.run(nowhere())


if __name__ == "__main__":
    unittest.main()
