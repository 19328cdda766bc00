import assert from "node:assert/strict";
import { it } from "node:test";

import { Client } from "lineclear";
import { eventually } from "./harness/eventually.js";
import { Proxy } from "./harness/proxy.js";
import { assertCompletedOnce } from "./harness/records.js";
import { Server } from "./harness/server.js";
import { suite } from "./harness/suite.js";
import { startWorker } from "./harness/workers.js";

/** The requests of a job's life. */
const REQUESTS = {
  enqueue: "POST /api/v1/jobs ",
  claim: "POST /api/v1/claims ",
  settle: "POST /api/v1/claims/settle ",
};

// Long leases: nothing is repeated only because the machine is busy.
suite("lost responses", { concurrency: 8 }, (server) => {
  for (const [phase, request] of Object.entries(REQUESTS)) {
    it(`lost responses to ${phase} lose no job and double none`, async (t) => {
      const kind = `lost.${phase}`;
      const proxy = await Proxy.to(t, server());
      const client = new Client({ url: proxy.url });
      let runs = 0;
      await startWorker(t, proxy.url, { [kind]: () => (runs += 1) });
      proxy.lose(request, 3);
      const enqueued = await Promise.all(Array.from({ length: 20 }, (_, order) => client.enqueue(kind, { order })));
      const ids = enqueued.map(({ id }) => id);
      await Promise.all(ids.map((id) => client.wait(id)));
      await eventually(() => "three responses are lost", () => proxy.lost === 3);
      assert.equal(new Set(ids).size, 20);
      assert.equal(runs, 20);
      await assertCompletedOnce(client, ids);
    });
  }

  it("a lost response to run runs one job", async (t) => {
    const proxy = await Proxy.to(t, server());
    const client = new Client({ url: proxy.url });
    let runs = 0;
    await startWorker(t, proxy.url, { "lost.run": () => (runs += 1) });
    proxy.lose("POST /api/v1/run/lost.run", 2);
    assert.equal(await client.run("lost.run"), 1);
    assert.equal(proxy.lost, 2);
    assert.equal(runs, 1);
  });

  it("a server that is killed and started again in mid-work loses no job and doubles none", async (t) => {
    const server = await Server.start();
    t.after(() => server.end());
    const proxy = await Proxy.to(t, server);
    const client = new Client({ url: proxy.url });
    let [started, ended] = [0, 0];
    let [isAway, isBack] = [false, false];
    await startWorker(t, proxy.url, {
      restart: async (_, { order }: { order: number }) => {
        started += 1;
        // Half of the results are sent while the server is away.
        await eventually(() => "the server restarts", () => (order < 5 ? isAway : isBack));
        ended += 1;
        return order;
      },
    });
    const jobs = Array.from({ length: 10 }, (_, order) => ({ kind: "restart", input: { order } }));
    const ids = (await client.enqueueMany(jobs)).map(({ id }) => id);
    await eventually(() => "all jobs run", () => started === 10);
    await server.end("SIGKILL");
    isAway = true;
    await eventually(() => "half of them have ended", () => ended === 5);
    await server.start();
    isBack = true;
    const outputs = await Promise.all(ids.map((id) => client.wait<number>(id)));
    assert.deepEqual(outputs, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.equal(started, 10);
    await assertCompletedOnce(client, ids);
  });
});
