import assert from "node:assert/strict";
import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it, type TestContext } from "node:test";

import { ClaimLost, JobFailedError, Permanent, type PushHandler, pushHandler, type PushOptions, RetryIn, Worker } from "lineclear";
import { nodeListener } from "lineclear/node";
import { eventually } from "./harness/eventually.js";
import { Proxy } from "./harness/proxy.js";
import { assertCompletedOnce, outcomes } from "./harness/records.js";
import { Server } from "./harness/server.js";

const OLD = `whsec_${randomBytes(32).toString("base64")}`;
const NEW = `whsec_${randomBytes(32).toString("base64")}`;

/** Serves a worker on a free port. */
async function listen(t: TestContext, worker: Worker, options: Partial<PushOptions> = {}): Promise<{ url: string; handler: PushHandler }> {
  const handler = pushHandler(worker, { secrets: [OLD], onWarning: () => {}, ...options });
  const server = createServer(nodeListener(handler));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jobs`, handler };
}

/** A server that pushes these kinds to a URL. Workers can call back. */
async function pushing(t: TestContext, url: string, kinds: string[]): Promise<Server> {
  let server: Server | undefined;
  // The server must be told its own URL before it has one.
  const proxy = await Proxy.to(t, { address: () => server!.address() });
  const settings = `
    [submitter.typescript]
    type = "push"
    url = "${url}"
    kinds = ${JSON.stringify(kinds)}
    secrets = ["${OLD}"]
    callback_url = "${proxy.url}"
  `;
  server = await Server.start([], settings);
  t.after(() => server!.end());
  return server;
}

const message = (job: object, claim: object = {}) =>
  JSON.stringify({
    version: 1,
    job: { id: "7", kind: "sum", input: [1, 2], manifest: null, tick_at: null, attempt: 1, trace: null, ...job },
    claim: { no: 1, lease_ms: 30_000, timeout_ms: 60_000, token: null, ...claim },
    callback: null,
  });

/** A request as the server signs it. */
function signed(body: string, options: { secret?: string; id?: string; at?: number; signatures?: string } = {}): Request {
  const { secret = OLD, id = "job-7-1", at = Math.floor(Date.now() / 1000) } = options;
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64");
  const headers = { "webhook-id": id, "webhook-timestamp": String(at), "webhook-signature": options.signatures ?? `v1,${signature}` };
  return new Request("http://worker/jobs", { method: "POST", headers, body });
}

const sums = () => new Worker({ url: "http://127.0.0.1:1" }).kind<number[], number>("sum", (_, [a, b]) => a! + b!);

describe("push", { concurrency: 8, timeout: 200_000 }, () => {
  it("a push endpoint runs the jobs of a server, and answers with their outcomes", async (t) => {
    const worker = sums().kind("broken", () => {
      throw new Permanent("never");
    });
    const { url } = await listen(t, worker);
    const { client } = await pushing(t, url, ["sum", "broken"]);
    assert.equal(await client.run("sum", [1, 2]), 3);
    await assert.rejects(client.run("broken"), (error) => error instanceof JobFailedError && error.errorMessage === "never");
  });

  it("a push endpoint that accepts jobs reports their logs, steps and outcomes later", async (t) => {
    let charged = 0;
    const worker = new Worker({ url: "http://127.0.0.1:1" }).kind("invoice", async (job) => {
      job.log(`claim ${job.claimNo}`);
      const number = await job.step("charge", () => (charged += 1));
      if (job.attempt === 1) throw new RetryIn(10, "busy");
      return number;
    });
    const { url, handler } = await listen(t, worker, { accept: true });
    const { client } = await pushing(t, url, ["invoice"]);
    const { id } = await client.enqueue("invoice");
    assert.equal(await client.wait(id), 1);
    const job = await client.job(id);
    assert.deepEqual(outcomes(job), ["failed", "completed"]);
    assert.deepEqual(job.steps.map((step) => step.name), ["charge"]);
    assert.deepEqual((await client.logs(id)).items.map((line) => line.message), ["claim 1", "claim 2"]);
    await handler.close();
  });

  it("reports that arrive while the server hands the lease over are recorded", async (t) => {
    const warnings: unknown[] = [];
    // It reports at once: the first request is under way before the server has read the 202.
    const worker = new Worker({ url: "http://127.0.0.1:1", slots: 100 }).kind<number, number>("quick", async (job, number) => {
      job.log("began");
      return await job.step("double", () => 2 * number);
    });
    const { url, handler } = await listen(t, worker, { accept: true, onWarning: (...warning) => warnings.push(warning) });
    const { client } = await pushing(t, url, ["quick"]);
    const jobs = await client.enqueueMany(Array.from({ length: 40 }, (_, input) => ({ kind: "quick", input })));
    const outputs = await Promise.all(jobs.map(({ id }) => client.wait<number>(id)));
    assert.deepEqual(outputs, jobs.map((_, input) => 2 * input));
    await assertCompletedOnce(client, jobs.map(({ id }) => id));
    for (const { id } of jobs) assert.deepEqual((await client.logs(id)).items.map((line) => line.message), ["began"], id);
    await handler.close();
    assert.deepEqual(warnings, []);
  });

  it("a handler learns that its job was cancelled, because the server closes the connection", async (t) => {
    let reason: unknown;
    let began = false;
    const worker = new Worker({ url: "http://127.0.0.1:1" }).kind("endless", async ({ signal }) => {
      began = true;
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      reason = signal.reason;
    });
    const { url } = await listen(t, worker);
    const { client } = await pushing(t, url, ["endless"]);
    const { id } = await client.enqueue("endless");
    // The server calls a job running before its request arrives here.
    await eventually(() => "the handler runs", () => began);
    await client.cancel(id);
    await eventually(() => "the handler is told", () => reason instanceof ClaimLost);
  });

  it("a request whose connection was closed before its job began runs nothing", async () => {
    let runs = 0;
    const worker = new Worker({ url: "http://127.0.0.1:1", slots: 1 }).kind("sum", () => (runs += 1));
    const handler = pushHandler(worker, { secrets: [OLD] });
    const closed = new AbortController();
    const response = handler(new Request(signed(message({})), { signal: closed.signal }));
    // The signature is not verified yet.
    closed.abort();
    assert.equal((await response).status, 503);
    assert.equal(runs, 0);
    assert.equal((await handler(signed(message({})))).status, 200, "the server sends it again");
    assert.equal(runs, 1);
  });

  it("forged, unsigned and old requests are refused, and run nothing", async () => {
    let runs = 0;
    const handler = pushHandler(new Worker({ url: "http://127.0.0.1:1" }).kind("sum", () => (runs += 1)), { secrets: [OLD] });
    const body = message({});
    const now = Math.floor(Date.now() / 1000);
    const refused = [
      signed(body, { secret: NEW }),
      signed(body, { signatures: "v1,AAAA" }),
      signed(body, { signatures: "v2,AAAA" }),
      signed(body, { at: now - 400 }),
      signed(body, { at: now + 400 }),
      new Request("http://worker/jobs", { method: "POST", body }),
      new Request(signed(body), { body: message({ input: [1, 3] }), method: "POST" }),
    ];
    for (const request of refused) assert.equal((await handler(request)).status, 401);
    assert.equal((await handler(new Request("http://worker/jobs"))).status, 405);
    assert.equal((await handler(signed("x".repeat(2_000_000)))).status, 413);
    assert.equal(runs, 0);
    assert.equal((await handler(signed(body))).status, 200);
    assert.equal(runs, 1);
  });

  it("secrets rotate: either of two is good, and a request may have two signatures", async () => {
    const handler = pushHandler(sums(), { secrets: [OLD, NEW] });
    assert.equal((await handler(signed(message({}), { secret: OLD, id: "1" }))).status, 200);
    assert.equal((await handler(signed(message({}), { secret: NEW, id: "2" }))).status, 200);
    const both = signed(message({}), { id: "3" });
    const signatures = `v1,AAAA ${both.headers.get("webhook-signature")}`;
    assert.equal((await handler(signed(message({}), { id: "3", signatures }))).status, 200);
    assert.throws(() => pushHandler(sums(), { secrets: [] }), /secrets/);
    assert.throws(() => pushHandler(sums(), { secrets: ["whsec_dG9vIHNob3J0"] }), /24 to 64/);
  });

  it("a request that comes again gets the same answer, and runs nothing again", async () => {
    let runs = 0;
    let proceed = () => {};
    const gate = new Promise<void>((resolve) => (proceed = resolve));
    let begin = () => {};
    const began = new Promise<void>((resolve) => (begin = resolve));
    const worker = new Worker({ url: "http://127.0.0.1:1", slots: 1 }).kind("sum", async () => {
      begin();
      await gate;
      return (runs += 1);
    });
    const handler = pushHandler(worker, { secrets: [OLD] });
    const first = handler(signed(message({})));
    // Requests are verified side by side: one that is sent later may take the slot first.
    await began;
    const meanwhile = handler(signed(message({})));
    const other = await handler(signed(message({}), { id: "job-8-1" }));
    assert.equal(other.status, 429, "the only slot is busy");
    proceed();
    const answer = { outcome: "completed", output: 1 };
    for (const response of [await first, await meanwhile, await handler(signed(message({})))]) {
      assert.deepEqual([response.status, await response.json()], [200, answer]);
    }
    assert.equal((await handler(signed(message({}), { id: "job-8-1" }))).status, 200);
    assert.equal(runs, 2);
  });

  it("what this worker cannot run stays in the queue of the server", async () => {
    const handler = pushHandler(sums(), { secrets: [OLD] });
    assert.equal((await handler(signed(message({ kind: "other" })))).status, 404);
    assert.equal((await handler(signed('{"version":2}'))).status, 503);
    assert.equal((await handler(signed("no JSON"))).status, 400);
    await handler.close();
    assert.equal((await handler(signed(message({})))).status, 503);
  });
});
