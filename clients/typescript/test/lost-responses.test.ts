import assert from "node:assert/strict";
import { it } from "node:test";

import { Client } from "lineclear";
import { declareKinds } from "./harness/declare-kinds.js";
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

  // A proxy may hide that the client of a request has gone. The dispatcher may have begun to serve it, and give it a job after the next request
  // asked for lost claims.
  it("claims of a lost request that goes on in the server are found later", async (t) => {
    const { url, client } = server();
    await declareKinds(url, ["lost.late"]);
    let [requests, runs] = [0, 0];
    let late: string | undefined;
    const send: typeof fetch = async (input, init) => {
      if (!String(input).endsWith("/claims")) return fetch(input, init);
      requests += 1;
      if (requests === 1) throw new TypeError("the connection was cut");
      if (requests !== 2) return fetch(input, init);
      const ask = JSON.parse(String(init!.body)) as object;
      const now = await fetch(input, { ...init, body: JSON.stringify({ ...ask, wait_ms: 0 }) });
      late = (await client.enqueue("lost.late")).id;
      const lost = await fetch(input, { ...init, body: JSON.stringify({ ...ask, resume: false, held: [] }) });
      assert.deepEqual(((await lost.json()) as { claims: { job: object }[] }).claims.map(({ job }) => (job as { id: string }).id), [late]);
      return now;
    };
    await startWorker(t, url, { "lost.late": () => (runs += 1) }, { fetch: send });
    const id = await eventually(() => "the old request got a job", () => late);
    await client.wait(id);
    assert.equal(runs, 1);
    await assertCompletedOnce(client, [id]);
  });

  it("a result that the server skips is sent again and holds up no other", async (t) => {
    const { url, client } = server();
    let isFree = false;
    /** The inputs of the jobs of each call. */
    const calls: unknown[][] = [];
    const send: typeof fetch = async (input, init) => {
      if (isFree || !String(input).endsWith("/claims/settle")) return fetch(input, init);
      // The answers of a server in whose database the row of the first job is locked.
      const { worker, claims } = JSON.parse(String(init!.body)) as { worker: string; claims: { job: string; no: number; output: number }[] };
      calls.push(claims.map(({ output }) => output));
      const free = claims.filter(({ output }) => output !== 0);
      const response = await fetch(input, { ...init, body: JSON.stringify({ worker, claims: free }) });
      const answers = ((await response.json()) as { claims: { job: string }[] }).claims;
      const statuses = claims.map(({ job, no }) => answers.find((answer) => answer.job === job) ?? { job, no, status: "skipped" });
      return new Response(JSON.stringify({ claims: statuses }));
    };
    await startWorker(t, url, { "lost.locked": (_, order) => order }, { fetch: send, slots: 2 });
    const { id } = await client.enqueue("lost.locked", 0);
    await eventually(() => "a result is sent without the one that was skipped, which is sent again", async () => {
      assert.equal(await client.wait((await client.enqueue("lost.locked", 1)).id), 1);
      return calls.some((call) => !call.includes(0)) && calls.filter((call) => call.includes(0)).length > 2;
    });
    assert.equal((await client.job(id)).state, "running");
    isFree = true;
    assert.equal(await client.wait(id), 0);
    await assertCompletedOnce(client, [id]);
  });

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
