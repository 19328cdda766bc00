import assert from "node:assert/strict";
import { it } from "node:test";

import { WaitTimeoutError, Worker } from "lineclear";
import { declareKinds } from "./harness/declare-kinds.js";
import { eventually } from "./harness/eventually.js";
import { suite } from "./harness/suite.js";

interface Poll {
  worker: { node: string; drain: boolean };
  claims: unknown[];
}

// Short heartbeats, with which a server learns what operators want.
suite("drain", { concurrency: 1, server: ["--lease", "4s", "--heartbeat", "1s"] }, (server) => {
  it("an idle worker that is drained asks for no jobs until it is resumed", async (t) => {
    const { client, url } = server();
    await declareKinds(url, ["drain.idle"]);
    const polls: Poll[] = [];
    let asked = 0;
    let renewals = 0;
    const worker = new Worker({
      url,
      handleSignals: false,
      onWarning: () => {},
      fetch: async (input, init) => {
        const path = new URL(String(input)).pathname;
        if (path.endsWith("/claims")) asked += 1;
        if (path.endsWith("/renew")) renewals += 1;
        const response = await fetch(input, init);
        if (path.endsWith("/claims")) polls.push((await response.clone().json()) as Poll);
        return response;
      },
    });
    worker.kind<number, number>("drain.idle", (_, number) => number);
    const running = worker.run();
    t.after(async () => {
      worker.stop();
      await running;
    });
    assert.equal(await client.run("drain.idle", 1), 1);
    const { node } = polls[0]!.worker;
    const operate = async (action: string) => {
      const response = await fetch(`${url}/api/v1/nodes/${node}/${action}`, { method: "POST" });
      assert.equal(response.status, 204, await response.text());
    };

    await eventually(() => "it waits for jobs", () => asked > polls.length);
    await operate("drain");
    // The request that waits ends early: it would wait for 25 seconds.
    const began = Date.now();
    await eventually(() => "a poll tells it", () => polls.at(-1)?.worker.drain === true);
    assert.ok(Date.now() - began < 20_000, `${Date.now() - began} ms`);
    assert.deepEqual(polls.at(-1)!.claims, []);
    const before = { asked, renewals };
    const { id } = await client.enqueue("drain.idle", 2);
    await assert.rejects(client.wait(id, { timeoutMs: 1_000 }), WaitTimeoutError);
    await eventually(() => "it asks whether it still drains", () => renewals >= before.renewals + 2);
    assert.equal(asked, before.asked);

    await operate("resume");
    assert.equal(await client.wait(id), 2);
    assert.equal((await client.job(id)).claimNo, 1);
  });
});
