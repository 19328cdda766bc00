import assert from "node:assert/strict";
import { it } from "node:test";

import { Worker } from "lineclear";
import { eventually } from "./harness/eventually.js";
import { Proxy } from "./harness/proxy.js";
import { assertCompletedOnce, outcomes } from "./harness/records.js";
import { suite } from "./harness/suite.js";
import { startProcess } from "./harness/workers.js";

// The tests use the same kinds, and run one after another.
suite("shutdown", { concurrency: 1 }, (server) => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    it(`a worker that gets ${signal} finishes its jobs, takes no more, and leaves`, async (t) => {
      const { client, url } = server();
      const worker = await startProcess(t, url);
      const { id } = await client.enqueue("sleep", { ms: 700 });
      await worker.line(`started ${id} 1`);
      worker.signal(signal);
      assert.equal(await worker.exit(), 0);
      assert.ok(worker.lines.includes("left"));
      await assertCompletedOnce(client, [id]);
    });
  }

  it("jobs that do not end in the grace period are given back at once, without a charge", async (t) => {
    const { client, url } = server();
    const worker = await startProcess(t, url, { GRACE_MS: "100" });
    const { id } = await client.enqueue("endless", null, { retries: 0 });
    await worker.line(`started ${id} 1`);
    worker.signal("SIGTERM");
    assert.equal(await worker.exit(), 0);
    const job = await client.job(id);
    assert.deepEqual(outcomes(job), ["released"]);
    assert.ok(!["dead", "running"].includes(job.state), job.state);
    await client.cancel(id);
  });

  it("the process of a worker ends although its result gets no response", async (t) => {
    const { client } = server();
    const proxy = await Proxy.to(t, server());
    const worker = await startProcess(t, proxy.url);
    proxy.lose("POST /api/v1/claims/settle ", Infinity);
    const { id } = await client.enqueue("sleep", { ms: 1 });
    await client.wait(id);
    worker.signal("SIGTERM");
    await worker.line("left");
    let code: number | null | undefined;
    void worker.exit().then((exit) => (code = exit));
    await eventually(() => "the process ends", () => code !== undefined);
    assert.equal(code, 0);
    await assertCompletedOnce(client, [id]);
  });

  it("a worker without a token or with kinds of others is refused with the reason", async () => {
    const worker = new Worker({ url: server().url, handleSignals: false }).kind("no such kind!", () => {});
    await assert.rejects(worker.run(), { name: "ApiError" });
    await assert.rejects(new Worker({ url: server().url }).run(), /no kinds/);
  });

  it("a worker that stops leaves the list of nodes", async () => {
    const { url } = server();
    const nodes = async () => {
      const response = await fetch(`${url}/api/v1/nodes`);
      return ((await response.json()) as { items: { name: string; state: string }[] }).items;
    };
    const worker = new Worker({ url, name: "typescript-leaves", handleSignals: false }).kind("leaves", () => {});
    const running = worker.run();
    await eventually(() => "the worker is a node", async () => (await nodes()).some((node) => node.name === "typescript-leaves"));
    worker.stop();
    await running;
    const left = (await nodes()).filter((node) => node.name === "typescript-leaves" && node.state === "alive");
    assert.deepEqual(left, []);
  });
});
