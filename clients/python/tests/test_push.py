"""The push endpoint: signatures, replays, and outcomes, as WSGI and ASGI applications."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import threading
import time
import unittest
from socketserver import ThreadingMixIn
from typing import Any, MutableMapping
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from lineclear import Job, JobFailed, Permanent, RetryIn, Snooze, Worker, push
from lineclear.push import signature
from lineclear.push.answers import Answer, Answers
from lineclear.requests import Request
from tests.server import PATIENCE, Server

OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
FOREIGN = "whsec_" + base64.b64encode(b"f" * 32).decode()


def request(kind: str, input: Any = None, claim_no: int = 1, **changes: Any) -> bytes:
    """A request as the server sends it."""
    job = {"id": "7", "kind": kind, "input": input, "manifest": None, "tick_at": None, "attempt": 1, "trace": None}
    claim = {"no": claim_no, "lease_ms": 30_000, "timeout_ms": 500, "token": None}
    return json.dumps({"version": 1, "job": job, "claim": claim, "callback": None, **changes}).encode()


def signed(body: bytes, *secrets: str, at: float | None = None, id: str = "job-7-1") -> dict[str, str]:
    """The headers of a request."""
    timestamp = str(int(time.time() if at is None else at))
    signatures = " ".join(signature.sign(signature.key(secret), id, timestamp, body) for secret in secrets)
    return {"Webhook-Id": id, "Webhook-Timestamp": timestamp, "Webhook-Signature": signatures, "Lineclear-Version": "1"}


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        return None


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Push(unittest.TestCase):
    def setUp(self) -> None:
        self.ran: list[tuple[str, Any]] = []
        worker = Worker()

        @worker.kind("echo")
        def echo(job: Job, input: Any) -> Any:
            self.ran.append((job.id, input))
            job.log("without callbacks, nothing is sent")
            return input

        @worker.kind("later")
        async def later(input: Any) -> Any:
            await asyncio.sleep(0.01)
            self.ran.append(("7", input))
            return input

        @worker.kind("raises")
        def raises(which: str) -> None:
            errors: dict[str, Exception] = {
                "error": ValueError("no"), "permanent": Permanent("never"), "retry": RetryIn(2, "busy"), "snooze": Snooze(3),
            }  # fmt: skip
            raise errors[which]

        @worker.kind("endless")
        async def endless() -> None:
            await asyncio.sleep(600)

        self.handler = push.handler(worker, [OLD, NEW])

    def outcome(self, kind: str, input: Any = None, id: str = "job-7-1") -> Any:
        body = request(kind, input)
        answer = self.handler.handle(signed(body, NEW, id=id), body)
        self.assertEqual(answer.status, 200)
        return json.loads(answer.body)

    def test_a_signed_request_runs_its_job_and_is_answered_with_the_outcome(self) -> None:
        self.assertEqual(self.outcome("echo", [1], "a"), {"outcome": "completed", "output": [1]})
        self.assertEqual(self.outcome("later", [2], "b"), {"outcome": "completed", "output": [2]})
        self.assertEqual(self.outcome("raises", "snooze", "c"), {"outcome": "snoozed", "in_ms": 3000})
        self.assertEqual(self.outcome("raises", "retry", "d")["in_ms"], 2000)
        self.assertEqual(self.outcome("raises", "permanent", "e")["permanent"], True)
        error = {"outcome": "failed", "error": {"type": "ValueError", "message": "no"}}
        self.assertEqual(self.outcome("raises", "error", "f"), error)

    def test_either_secret_signs_and_no_other_one_does(self) -> None:
        body = request("echo", 1)
        for n, secrets in enumerate([(OLD,), (NEW,), (FOREIGN, OLD), (OLD, NEW)]):
            self.assertEqual(self.handler.handle(signed(body, *secrets, id=f"rotated-{n}"), body).status, 200)
        ran = len(self.ran)
        for headers in (signed(body, FOREIGN), signed(body), {}, {**signed(body, NEW), "Webhook-Id": "job-8-1"}):
            answer = self.handler.handle(headers, body)
            self.assertEqual((answer.status, json.loads(answer.body)["code"]), (401, "bad_signature"))
        self.assertEqual(self.handler.handle(signed(body, NEW), request("echo", 2)).status, 401)
        self.assertEqual(len(self.ran), ran)

    def test_a_request_outside_of_the_window_is_refused(self) -> None:
        body = request("echo", 1)
        for seconds, status in ((-290, 200), (290, 200), (-310, 401), (310, 401)):
            headers = signed(body, NEW, at=time.time() + seconds, id=f"at{seconds}")
            self.assertEqual(self.handler.handle(headers, body).status, status, seconds)
        self.assertEqual(len(self.ran), 2)

    def test_a_request_that_comes_again_runs_its_job_once(self) -> None:
        body = request("echo", 1)
        answers = {self.handler.handle(signed(body, NEW, at=time.time() - n), body).body for n in range(3)}
        self.assertEqual((len(answers), len(self.ran)), (1, 1))

    def test_an_answer_is_forgotten_when_no_request_can_ask_for_it_any_more(self) -> None:
        answer = Answer(200, b"{}")
        for kept_seconds, is_kept in ((0.0, False), (600.0, True)):
            answers = Answers(kept_seconds)
            found, is_mine = answers.begin("job-7-1")
            self.assertTrue(is_mine)
            self.assertEqual(answers.begin("job-7-1"), (found, False), "a request that runs is never forgotten")
            found.set_result(answer)
            again, is_mine = answers.begin("job-7-1")
            self.assertEqual((again is found, is_mine), (is_kept, not is_kept))

    def test_what_is_not_a_job_of_ours_is_refused(self) -> None:
        wrong = [
            (request("unknown"), 404),
            (request("echo", version=2), 503),
            (b'{"version":2}', 503),
            (b'{"version":1}', 400),
            (b"[]", 400),
            (b"no json", 400),
            (b" " * 2_000_000, 413),
        ]
        for body, status in wrong:
            self.assertEqual(self.handler.handle(signed(body, NEW), body).status, status, body[:40])
        for bad in ([], NEW, ["whsec_short"], ["whsec_" + "!" * 40]):
            with self.assertRaises(ValueError):
                push.handler(Worker(), bad)

    def test_it_is_a_wsgi_application(self) -> None:
        with make_server("127.0.0.1", 0, self.handler.wsgi, handler_class=Quiet) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            body = request("later", {"n": 1})
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
            connection.request("POST", "/jobs", body, {**signed(body, NEW), "content-type": "application/json"})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.getheader("content-type")), (200, "application/json"))
            self.assertEqual(json.loads(answer.read()), {"outcome": "completed", "output": {"n": 1}})
            connection.request("GET", "/jobs")
            self.assertEqual(connection.getresponse().status, 405)
            connection.close()
            server.shutdown()

    def asgi(self, body: bytes, headers: dict[str, str], method: str = "POST") -> tuple[int, Any]:
        """Calls the ASGI application as a server does, with a body in two parts."""
        sent: list[MutableMapping[str, Any]] = []
        parts: list[MutableMapping[str, Any]] = [
            {"type": "http.request", "body": body[:10], "more_body": True},
            {"type": "http.request", "body": body[10:]},
        ]

        async def receive() -> MutableMapping[str, Any]:
            return parts.pop(0)

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "headers": raw}
        asyncio.run(self.handler.asgi(scope, receive, send))
        return sent[0]["status"], json.loads(sent[1]["body"])

    def test_it_is_an_asgi_application(self) -> None:
        for n, kind in enumerate(("echo", "later")):
            body = request(kind, [n])
            found = self.asgi(body, signed(body, OLD, id=kind))
            self.assertEqual(found, (200, {"outcome": "completed", "output": [n]}))
        body = request("echo")
        self.assertEqual(self.asgi(body, {})[0], 401)
        self.assertEqual(self.asgi(body, {}, "GET")[0], 405)

    def test_a_coroutine_that_takes_too_long_is_out_of_time(self) -> None:
        body = request("endless")
        self.assertEqual(self.asgi(body, signed(body, NEW)), (200, {"outcome": "timed_out"}))

    def test_a_request_that_comes_again_while_its_job_runs_waits_for_it(self) -> None:
        async def both() -> None:
            body = request("later", 5)
            found = await asyncio.gather(*(self.handler.ahandle(signed(body, NEW), body) for _ in range(3)))
            self.assertEqual(len({answer.body for answer in found}), 1)

        asyncio.run(both())
        self.assertEqual(len(self.ran), 1)


class PushedByTheServer(unittest.TestCase):
    """The server calls the endpoint, as it is configured to."""

    def setUp(self) -> None:
        self.worker = Worker()
        endpoint = make_server("127.0.0.1", 0, push.handler(self.worker, [OLD]).wsgi, Threads, Quiet)
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        self.addCleanup(endpoint.server_close)
        self.addCleanup(endpoint.shutdown)
        url = f"http://127.0.0.1:{endpoint.server_port}/jobs"
        billing = {"type": "push", "url": url, "kinds": ["billing.charge", "billing.fails"], "secrets": [NEW, OLD]}
        self.server = Server(lease="30s", submitters={"billing": billing})
        self.addCleanup(self.server.close)
        self.client = self.server.client()
        self.addCleanup(self.client.close)

    def test_jobs_run_with_steps_progress_and_log_and_their_outcomes_are_recorded(self) -> None:
        charged: list[str] = []

        @self.worker.kind("billing.charge")
        def charge(job: Job, order: int) -> dict[str, Any]:
            job.step("charge", lambda: charged.append(job.id))
            job.progress(0.5, "charged")
            job.log("charged")
            if job.attempt == 1:
                raise RetryIn(0, "no mail server")
            return {"order": order, "attempt": job.attempt}

        @self.worker.kind("billing.fails")
        async def fails() -> None:
            raise Permanent("no such customer")

        job = self.client.enqueue("billing.charge", 7)
        self.assertEqual(self.client.wait(job.id, PATIENCE), {"order": 7, "attempt": 2})
        found = self.client.job(job.id)
        ends = [(one.outcome, one.error_message) for one in found.executions if one.outcome != "released"]
        self.assertEqual(ends, [("failed", "no mail server"), ("completed", None)])
        self.assertEqual([step["name"] for step in found.raw["steps"]], ["charge"])
        lines = self.client.call(Request("GET", f"/api/v1/jobs/{job.id}/logs", lambda r: r.json()["items"]))
        self.assertEqual([line["message"] for line in lines], ["charged", "charged"])
        with self.assertRaisesRegex(JobFailed, "no such customer"):
            self.client.run("billing.fails", None, PATIENCE)


if __name__ == "__main__":
    unittest.main()
