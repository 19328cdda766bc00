"""Jobs whose rows another transaction of the server's database holds."""

from __future__ import annotations

import json
import threading
import unittest
from typing import Any, Sequence
from unittest import mock

from lineclear import Worker
from lineclear.worker.api import ClaimsApi
from tests.running import Running
from tests.server import PATIENCE, Server, until


class LockedRows(unittest.TestCase):
    def test_a_result_that_the_server_skips_is_sent_again_and_holds_up_no_other(self) -> None:
        server = Server(lease="10m")
        self.addCleanup(server.close)
        settle, is_free = ClaimsApi.settle, threading.Event()
        #: The jobs of each call.
        calls: list[list[int]] = []

        def skips(api: ClaimsApi, items: Sequence[bytes]) -> list[dict[str, Any]]:
            """The answers of a server in whose database the row of job 0 is locked."""
            read = [json.loads(item) for item in items]
            calls.append([item.get("output") for item in read])
            if is_free.is_set():
                return settle(api, items)
            free = [item for item, one in zip(items, read) if one["output"] != 0]
            answers = {one["job"]: one for one in (settle(api, free) if free else [])}
            skipped = [{"job": one["job"], "no": one["no"], "status": "skipped"} for one in read]
            return [answers.get(one["job"], one) for one in skipped]

        worker = Worker(server.url, slots=2)
        worker.kind("locked")(lambda n: n)
        with server.client() as client, Running(worker, client), mock.patch.object(ClaimsApi, "settle", skips):
            locked = client.enqueue("locked", 0, retries=0).id

            def is_alone() -> bool:
                other = client.enqueue("locked", 1, retries=0).id
                self.assertEqual(client.wait(other, PATIENCE), 1)
                return [1] in calls and sum(0 in call for call in calls) > 2

            until(is_alone, "a result is sent without the one that was skipped, which is sent again")
            self.assertEqual(client.job(locked).state, "running")
            is_free.set()
            self.assertEqual(client.wait(locked, PATIENCE), 0)
            ends = [(one.claim_no, one.outcome) for one in client.job(locked).executions]
            self.assertEqual(ends, [(1, "completed")])


if __name__ == "__main__":
    unittest.main()
