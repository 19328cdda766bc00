"""What needs no server."""

from __future__ import annotations

import unittest
from datetime import datetime, timedelta, timezone

from lineclear import Job, NewJob, Permanent, RetryIn, Snooze, Worker, address, encoding, schedule
from lineclear.worker import outcome
from lineclear.worker.handlers import Handler
from lineclear.worker.job import LOG_LINES_MAX


class Nowhere:
    """Nothing is sent."""

    def changed(self, job: Job) -> None:
        return None

    def read_step(self, job: Job, name: str) -> tuple[bool, object]:
        return False, None

    def write_step(self, job: Job, step: dict[str, object]) -> None:
        return None


def a_job(**fields: object) -> Job:
    return Job({"id": "7", "kind": "invoice", "input": 42, "attempt": 1, **fields}, 1, None, Nowhere())


class Values(unittest.TestCase):
    def test_moments_and_durations_are_those_of_the_api(self) -> None:
        at = datetime(2026, 11, 18, 9, 30, tzinfo=timezone(timedelta(hours=1)))
        self.assertEqual(encoding.moment(at), "2026-11-18T08:30:00Z")
        self.assertEqual(encoding.read_moment("2026-11-18T08:30:00Z"), at)
        fraction = encoding.read_moment("2026-11-18T08:30:00.5Z")
        assert fraction is not None
        self.assertEqual(fraction - at, timedelta(milliseconds=500))
        self.assertEqual(encoding.milliseconds(1.5), 1500)
        self.assertEqual(encoding.milliseconds(timedelta(minutes=1)), 60_000)
        for wrong in (-1.0, float("nan"), float("inf")):
            with self.assertRaises(ValueError):
                encoding.milliseconds(wrong)
        with self.assertRaisesRegex(ValueError, "time zone"):
            encoding.moment(datetime(2026, 11, 18))

    def test_a_new_job_says_only_what_was_given(self) -> None:
        self.assertEqual(NewJob("invoice").body(), {"kind": "invoice"})
        full = NewJob("invoice", [1], delay=2, priority=3, unique_key="k", timeout=timedelta(seconds=4), tags=("a",))
        expected = {
            "kind": "invoice", "input": [1], "in_ms": 2000, "priority": 3, "unique_key": "k", "timeout_ms": 4000, "tags": ["a"],
        }  # fmt: skip
        self.assertEqual(full.body(), expected)

    def test_schedules_are_those_of_manifest_files(self) -> None:
        self.assertEqual(schedule.cron("30 2 * * *", tz="UTC"), {"cron": "30 2 * * *", "tz": "UTC"})
        self.assertEqual(schedule.every("5m", phase="1m"), {"every": "5m", "phase": "1m"})
        self.assertEqual(schedule.after("a", "b", need="any"), {"after": ["a", "b"], "need": "any"})

    def test_a_token_does_not_go_over_the_network_in_the_clear(self) -> None:
        for url in ("https://jobs.example.com", "http://127.0.0.1:7171", "http://[::1]:7171", "http://localhost"):
            address.parse(url, "lc_secret", False)
        with self.assertRaisesRegex(ValueError, "https"):
            address.parse("http://jobs.example.com", "lc_secret", False)
        address.parse("http://jobs.example.com", "lc_secret", True)
        address.parse("http://jobs.example.com", None, False)
        for wrong in ("jobs.example.com", "ftp://jobs", "http://user:pass@host", "http://host?x=1"):
            with self.assertRaises(ValueError):
                address.parse(wrong, None, False)

    def test_an_address_knows_its_path_and_authority(self) -> None:
        where = address.parse("https://[2001:db8::1]:8443/lineclear/", None, False)
        self.assertEqual((where.base_path, where.authority), ("/lineclear", "[2001:db8::1]:8443"))
        self.assertEqual(address.parse("https://jobs", None, False).authority, "jobs")


class Handling(unittest.TestCase):
    def test_a_handler_gets_what_its_parameters_ask_for(self) -> None:
        job = a_job()

        def both(job: Job, order: int) -> object:
            return (job, order)

        def typed(this: Job) -> object:
            return this

        self.assertEqual(Handler(both).call(job), (job, 42))
        self.assertIs(Handler(typed).call(job), job)
        self.assertIs(Handler(lambda job: job).call(job), job)
        self.assertEqual(Handler(lambda order: order).call(job), 42)
        self.assertEqual(Handler(lambda: "none").call(job), "none")
        self.assertEqual(Handler(lambda order, unit="EUR": (order, unit)).call(job), (42, "EUR"))
        with self.assertRaisesRegex(TypeError, "parameters"):
            Handler(lambda a, b, c: None)

    def test_coroutine_functions_are_recognized(self) -> None:
        class Callable:
            async def __call__(self, job: Job) -> None:
                return None

        async def function(job: Job) -> None:
            return None

        self.assertTrue(Handler(function).is_async)
        self.assertTrue(Handler(Callable()).is_async)
        self.assertFalse(Handler(lambda job: None).is_async)

    def test_a_kind_has_one_handler_and_a_worker_its_limits(self) -> None:
        worker = Worker()
        worker.kind("invoice")(lambda job: None)
        with self.assertRaisesRegex(ValueError, "already"):
            worker.kind("invoice")(lambda job: None)
        for wrong in (0, 1001):
            with self.assertRaisesRegex(ValueError, "`slots`"):
                Worker("http://127.0.0.1", slots=wrong)

    def test_outcomes_are_those_of_the_api(self) -> None:
        def read(encoded: bytes | None) -> object:
            assert encoded is not None
            return encoding.loads(encoded)

        job = a_job()
        self.assertEqual(read(outcome.completed(None)), {"outcome": "completed"})
        self.assertEqual(read(outcome.completed([1])), {"outcome": "completed", "output": [1]})
        failed = {"outcome": "failed", "error": {"type": "ValueError", "message": "no"}}
        self.assertEqual(read(outcome.of_error(job, ValueError("no"))), failed)
        permanent = {"outcome": "failed", "error": {"type": "Permanent", "message": "no"}, "permanent": True}
        self.assertEqual(read(outcome.of_error(job, Permanent("no"))), permanent)
        later = {"outcome": "failed", "error": {"type": "RetryIn", "message": "busy"}, "in_ms": 1500}
        self.assertEqual(read(outcome.of_error(job, RetryIn(1.5, "busy"))), later)
        self.assertEqual(read(outcome.of_error(job, Snooze(timedelta(seconds=2)))), {"outcome": "snoozed", "in_ms": 2000})
        for output in (object(), float("nan"), "x" * 70_000, "\ud800"):
            self.assertIn(b'"permanent":true', outcome.completed(output))

    def test_a_message_that_no_database_takes_is_made_one(self) -> None:
        self.assertEqual(encoding.loads(outcome.failed(ValueError("a\0b\ud800")))["error"]["message"], "a\ufffdb?")
        self.assertLess(len(outcome.failed(ValueError("ü" * 10_000))), 9_000)

    def test_a_log_is_bounded_and_says_what_is_missing(self) -> None:
        job = a_job()
        for n in range(LOG_LINES_MAX + 5):
            job.log(f"line {n}")
        lines = job.take_lines(at_end=True)
        self.assertEqual(len(lines), LOG_LINES_MAX + 1)
        self.assertEqual(lines[-1]["text"], "5 more lines were dropped: the log is full")

    def test_the_name_of_a_step_is_used_once(self) -> None:
        job = a_job()
        self.assertEqual(job.step("charge", lambda: 1), 1)
        with self.assertRaisesRegex(Permanent, "twice"):
            job.step("charge", lambda: 2)


if __name__ == "__main__":
    unittest.main()
