"""Programs that tests start, stop and kill: `python -m tests.children PROGRAM URL …`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from lineclear import Job, Worker, address, encoding
from lineclear.transport import Pool
from lineclear.worker.api import ClaimsApi, Identity
from lineclear.worker.outcome import COMPLETED


def say(line: str) -> None:
    """Prints a whole line at once: other threads print, too."""
    sys.stdout.write(line + "\n")


def works(url: str, kind: str, name: str = "child") -> None:
    """A worker whose handler waits until the file in its input exists."""
    worker = Worker(url, slots=4, name=name, grace=20.0)

    @worker.kind(kind)
    def handle(job: Job, gate: str) -> dict[str, Any]:
        say(f"begins {job.id} {job.claim_no}")
        while not Path(gate).exists():
            job.sleep(0.02)
        say(f"ends {job.id} {job.claim_no}")
        return {"by": name, "pid": os.getpid()}

    say("serves")
    worker.run()
    say("left")


def stubborn(url: str, kind: str) -> None:
    """A worker whose handler does not stop, with a short grace."""
    worker = Worker(url, slots=1, grace=1.0)

    @worker.kind(kind)
    def handle(job: Job) -> None:
        say(f"begins {job.id} {job.claim_no}")
        time.sleep(600)

    worker.run()
    say("left")


def freezes(url: str, kind: str) -> None:
    """A worker that stops its own process when its handler is done, right before it returns. The input names a file that exists when the process is resumed."""
    worker = Worker(url, slots=1)

    @worker.kind(kind)
    def handle(job: Job, gate: str) -> dict[str, str]:
        say(f"freezes {job.id} {job.claim_no}")
        os.kill(os.getpid(), signal.SIGSTOP)
        # The kernel lets another thread take the signal. Until that thread runs, this one goes on, and could return its result.
        while not Path(gate).exists():
            time.sleep(0.01)
        say(f"thaws {job.id} {job.claim_no}")
        return {"by": "frozen"}

    worker.run()
    say("left")


def freezes_bare(url: str, kind: str) -> None:
    """Claims a job by the bare calls of the API, stops its own process, and settles when it is resumed."""
    api = ClaimsApi(Pool(address.parse(url, None, False), None, None), Identity(str(uuid.uuid4()), "bare"))
    claims: list[dict[str, Any]] = []
    while not claims:
        claims, _ = api.claim([kind], 1, 5_000, None)
    job, no = claims[0]["job"]["id"], claims[0]["claim"]["no"]
    say(f"freezes {job} {no}")
    os.kill(os.getpid(), signal.SIGSTOP)
    pool = Pool(address.parse(url, None, False), None, None)
    item = b'{"job":"%s","no":%d,' % (job.encode(), no) + COMPLETED[1:]
    body = b'{"worker":%s,"claims":[%s]}' % (encoding.dumps(api._identity.id), item)
    response = pool.send("POST", "/api/v1/claims/settle", body, {}, 30.0)
    say(f"settled {response.status} {response.error().code}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    globals()[sys.argv[1]](*sys.argv[2:])
