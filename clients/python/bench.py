"""A worker that does nothing, for `make bench ARGS='--only pull'`: `bench.py URL KIND SLOTS`.

It prints a line when it is ready, and begins when it gets one, so that the start of Python is not measured.
"""

from __future__ import annotations

import sys

from lineclear import Job, Worker


def main(url: str, kind: str, slots: str) -> None:
    worker = Worker(url, slots=int(slots), name="bench")

    @worker.kind(kind)
    def nothing(job: Job) -> None:
        return None

    print("ready", flush=True)
    sys.stdin.readline()
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
