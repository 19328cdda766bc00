import assert from "node:assert/strict";
import { it } from "node:test";

import { CancelRequested, type Job, JobCancelledError, JobFailedError, Permanent, RetryIn, Snooze, TimedOut, Worker } from "lineclear";
import { eventually } from "./harness/eventually.js";
import { outcomes } from "./harness/records.js";
import { suite } from "./harness/suite.js";
import { startWorker } from "./harness/workers.js";

suite("worker", { concurrency: 8 }, (server) => {
  it("a handler gets the input, and its output is returned to the caller", async (t) => {
    const { client, url } = server();
    await startWorker(t, url, { "worker.sum": (_, { a, b }: { a: number; b: number }) => a + b });
    assert.equal(await client.run<number>("worker.sum", { a: 1, b: 2 }), 3);
    assert.equal(await client.run<number>("worker.sum", { a: 1, b: 2 }, { priority: 3 }), 3);
    const jobs = Array.from({ length: 200 }, (_, a) => ({ kind: "worker.sum", input: { a, b: 1 } }));
    const enqueued = await client.enqueueMany(jobs);
    const sums = await Promise.all(enqueued.map(({ id }) => client.wait<number>(id)));
    assert.deepEqual(sums, jobs.map(({ input }) => input.a + 1));
  });

  it("what a handler throws decides what happens next", async (t) => {
    const { client, url } = server();
    await startWorker(t, url, {
      "worker.broken": () => {
        throw new TypeError("no such order", { cause: new Error("row 7") });
      },
      "worker.permanent": () => {
        throw new Permanent(new RangeError("never"));
      },
      "worker.retry": ({ attempt }) => {
        if (attempt === 1) throw new RetryIn(10, "busy");
        return attempt;
      },
      "worker.snooze": ({ claimNo, attempt }) => {
        if (claimNo === 1) throw new Snooze(10);
        return attempt;
      },
    });
    const failure = async (kind: string, options = {}) => {
      const error = await client.run(kind, null, options).catch((error: unknown) => error);
      assert.ok(error instanceof JobFailedError, String(error));
      return { type: error.errorType, message: error.errorMessage, outcomes: outcomes(await client.job(error.job)) };
    };
    const broken = { type: "TypeError", message: "no such order: row 7", outcomes: ["failed"] };
    assert.deepEqual(await failure("worker.broken", { retries: 0 }), broken);
    assert.deepEqual(await failure("worker.permanent"), { type: "RangeError", message: "never", outcomes: ["failed"] });
    assert.equal(await client.run("worker.retry"), 2);
    assert.equal(await client.run("worker.snooze"), 1);
  });

  it("an input or an output that is not as it must be fails its own job alone, and for good", async (t) => {
    const { client, url } = server();
    const ring: { ring?: unknown } = {};
    ring.ring = ring;
    const outputs: Record<string, unknown> = { good: "good", long: "x".repeat(100_000), ring, nul: "\u0000" };
    await startWorker(t, url, { "worker.output": (_, name: string) => outputs[name] });
    const jobs = await client.enqueueMany(["good", "long", "ring", "nul", "good"].map((input) => ({ kind: "worker.output", input })));
    const [first, long, circular, nul, last] = jobs.map(({ id }) => client.wait(id));
    await Promise.all([
      assert.rejects(long!, /65536/),
      assert.rejects(circular!, /circular/),
      // The server refuses it.
      assert.rejects(nul!, /U\+0000/),
    ]);
    assert.deepEqual(await Promise.all([first, last]), ["good", "good"]);
    for (const { id } of jobs) assert.equal((await client.job(id)).claimNo, 1);

    const parsing = new Worker({ url, handleSignals: false, onWarning: () => {} });
    parsing.kind("worker.parsed", () => assert.fail("it must not run"), { parse: () => assert.fail("bad input") });
    const running = parsing.run();
    await assert.rejects(client.run("worker.parsed"), /bad input/);
    parsing.stop();
    await running;
  });

  it("steps run once, and the log and the progress are recorded", async (t) => {
    const { client, url } = server();
    let charged = 0;
    await startWorker(t, url, {
      "worker.steps": async (job) => {
        job.log(`claim ${job.claimNo}`);
        job.log("careful", "warn");
        job.progress(0.5, "half");
        const receipt = await job.step("charge", () => ({ number: (charged += 1), at: new Date(0) }));
        await job.step("mail", () => {
          if (job.attempt === 1) throw new RetryIn(10, "no mail server");
        });
        return receipt;
      },
    });
    const { id } = await client.enqueue("worker.steps");
    assert.deepEqual(await client.wait(id), { number: 1, at: "1970-01-01T00:00:00.000Z" });
    const job = await client.job(id);
    assert.deepEqual(outcomes(job), ["failed", "completed"]);
    assert.deepEqual(job.steps.map((step) => step.name).sort(), ["charge", "mail"]);
    const { items } = await client.logs(id);
    const lines = items.map((line) => `${line.claimNo} ${line.level} ${line.message}`);
    assert.deepEqual(lines, ["1 INFO claim 1", "1 WARN careful", "2 INFO claim 2", "2 WARN careful"]);
  });

  it("a step that is used twice is a permanent failure", async (t) => {
    const { client, url } = server();
    await startWorker(t, url, {
      "worker.twice": async (job) => {
        await job.step("same", () => 1);
        await job.step("same", () => 2);
      },
    });
    await assert.rejects(client.run("worker.twice"), /used twice/);
  });

  it("a handler is told of a cancel and of its timeout", async (t) => {
    const { client, url } = server();
    const reasons: unknown[] = [];
    await startWorker(t, url, { "worker.endless": (job) => untilStopped(job, reasons) });
    const { id } = await client.enqueue("worker.endless");
    await eventually(() => `job ${id} runs`, async () => (await client.job(id)).state === "running");
    await client.cancel(id);
    await assert.rejects(client.wait(id), JobCancelledError);
    assert.ok(reasons[0] instanceof CancelRequested);

    const late = await client.enqueue("worker.endless", null, { timeoutMs: 200, retries: 0 });
    await assert.rejects(client.wait(late.id), (error) => error instanceof JobFailedError && error.outcome === "timed_out");
    assert.ok(reasons[1] instanceof TimedOut);
  });
});

function untilStopped(job: Job, reasons: unknown[]): Promise<never> {
  return new Promise((_, reject) => {
    job.signal.addEventListener("abort", () => {
      reasons.push(job.signal.reason);
      reject(job.signal.reason as Error);
    });
  });
}
