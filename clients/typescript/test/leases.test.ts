import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";

import { Client } from "lineclear";
import { eventually } from "./harness/eventually.js";
import { Proxy } from "./harness/proxy.js";
import { assertCompletedOnce, outcomes } from "./harness/records.js";
import { suite } from "./harness/suite.js";
import { startProcess, startWorker } from "./harness/workers.js";

// Short leases. The tests use the same kinds, and run one after another.
suite("leases", { concurrency: 1, server: ["--lease", "4s", "--heartbeat", "1s"] }, (server) => {
  it("a worker that was stopped past its lease is told that its claim is stale, and another completes the job", async (t) => {
    const { client, url } = server();
    const file = join(server().folder, "continue");
    const stopped = await startProcess(t, url, { NAME: "stopped" });
    const { id } = await client.enqueue("wait", { file });
    await stopped.line(`started ${id} 1`);
    stopped.signal("SIGSTOP");
    const other = await startProcess(t, url, { NAME: "other" });
    assert.deepEqual(await client.wait(id), { by: "other" });
    const before = await client.job(id);
    assert.equal(before.executions[0]?.outcome, "lost");
    assert.equal(outcomes(before).filter((outcome) => outcome === "completed").length, 1);

    // Its handler ends as soon as the process continues, before it can learn that the claim is lost.
    writeFileSync(file, "");
    stopped.signal("SIGCONT");
    await stopped.line("settle 409 stale_claim");
    assert.deepEqual(await client.job(id), before);
    assert.deepEqual([await stopped.end("SIGTERM"), await other.end("SIGTERM")], [0, 0]);
  });

  it("a handler that still runs when its claim is lost is stopped, and its result is not sent", async (t) => {
    const { client, url } = server();
    const stopped = await startProcess(t, url, { NAME: "stopped" });
    const { id } = await client.enqueue("endless");
    await stopped.line(`started ${id} 1`);
    stopped.signal("SIGSTOP");
    const other = await startProcess(t, url, { NAME: "other" });
    await other.line(`started ${id} `);

    stopped.signal("SIGCONT");
    await stopped.line("no result was sent");
    assert.ok(stopped.lines.includes(`aborted ${id} ClaimLost`), stopped.lines.join("\n"));
    assert.ok(!stopped.lines.some((line) => line.startsWith("settle")), stopped.lines.join("\n"));
    await client.cancel(id);
    await eventually(() => `job ${id} is cancelled`, async () => (await client.job(id)).state === "cancelled");
    assert.deepEqual(outcomes(await client.job(id)).filter((outcome) => outcome !== "lost"), ["cancelled"]);
  });

  it("a job whose response is read after its lease does not begin", async (t) => {
    const { client, url } = server();
    let [waits, isOver] = [false, false];
    const begun: string[] = [];
    const readLate: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (waits || !String(input).endsWith("/claims")) return response;
      const { claims } = (await response.clone().json()) as { claims?: unknown[] };
      waits = (claims ?? []).length > 0;
      if (waits) await eventually(() => "another worker has the job", () => isOver);
      return response;
    };
    await startWorker(t, url, { wait: (job) => void begun.push(job.id) }, { fetch: readLate });
    const { id } = await client.enqueue("wait", { file: "/nonexistent" });
    await eventually(() => "the response waits", () => waits);
    const other = await startProcess(t, url, { NAME: "other" });
    assert.deepEqual(await client.wait(id), { by: "other" });
    assert.equal(await other.end("SIGTERM"), 0);
    isOver = true;
    // It goes on with other jobs.
    const next = await client.enqueue("wait");
    await client.wait(next.id);
    assert.deepEqual([...new Set(begun)], [next.id]);
  });

  it("the job of a worker that was killed is completed by another", async (t) => {
    const { client, url } = server();
    const killed = await startProcess(t, url, { NAME: "killed" });
    const { id } = await client.enqueue("wait", { file: "/nonexistent" });
    await killed.line(`started ${id} 1`);
    await killed.end("SIGKILL");
    await startProcess(t, url, { NAME: "other" });
    assert.deepEqual(await client.wait(id), { by: "other" });
    assert.deepEqual(outcomes(await client.job(id)).filter((outcome) => outcome !== "lost"), ["completed"]);
  });

  it("a thread keeps the lease of a handler that blocks the event loop", async (t) => {
    const { client, url } = server();
    await startProcess(t, url, { NAME: "blocked", THREAD: "1" });
    const { id } = await client.enqueue("block", { ms: 6_000 });
    assert.deepEqual(await client.wait(id), { by: "blocked" });
    await assertCompletedOnce(client, [id]);
  });

  it("lost responses to renewals lose no claim", async (t) => {
    const proxy = await Proxy.to(t, server());
    const client = new Client({ url: proxy.url });
    await startWorker(t, proxy.url, {
      "lost.renew": async ({ signal }) => {
        await eventually(() => "two responses are lost", () => proxy.lost === 2);
        return signal.aborted;
      },
    });
    proxy.lose("POST /api/v1/claims/renew ", 2);
    const { id } = await client.enqueue("lost.renew");
    assert.equal(await client.wait(id), false);
    await assertCompletedOnce(client, [id]);
  });
});
