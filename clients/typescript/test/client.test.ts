import assert from "node:assert/strict";
import { it } from "node:test";

import { ApiError, Client, ConnectionError, JobCancelledError, WaitTimeoutError } from "lineclear";
import { suite } from "./harness/suite.js";

suite("client", { concurrency: 8 }, (server) => {
  it("a job is enqueued with all options and read again", async () => {
    const { client } = server();
    const dueAt = new Date("2100-01-01T00:00:00Z");
    const options = { dueAt, priority: 5, uniqueKey: "client-all-options", limitKey: "customer:42", retries: 2, timeoutMs: 60_000, tags: ["typescript"] };
    const first = await client.enqueue("client.later", { order: 7, nested_part: { some_field: 1 } }, options);
    assert.equal(first.placed, "inserted");
    const second = await client.enqueue("client.later", { order: 8 }, options);
    assert.deepEqual(second, { id: first.id, placed: "existing" });
    const job = await client.job(first.id);
    assert.equal(job.state, "scheduled");
    assert.equal(job.dueAt, "2100-01-01T00:00:00Z");
    assert.equal(job.limitKey, "customer:42");
    assert.deepEqual(job.tags, ["typescript"]);
    assert.deepEqual(job.input, { order: 7, nested_part: { some_field: 1 } });
  });

  it("many jobs are enqueued, all or none", async () => {
    const { client } = server();
    const jobs = Array.from({ length: 100 }, (_, order) => ({ kind: "client.later", input: { order }, delayMs: 3_600_000 }));
    const enqueued = await client.enqueueMany(jobs);
    assert.equal(new Set(enqueued.map((job) => job.id)).size, 100);
    const refused = client.enqueueMany([{ kind: "client.later" }, { kind: "no such kind!" }]);
    await assert.rejects(refused, (error) => error instanceof ApiError && error.fields[0]?.pointer.startsWith("/jobs/1") === true);
  });

  it("the same idempotency key creates one job", async () => {
    const { client } = server();
    const options = { delayMs: 3_600_000, idempotencyKey: "client-one-job" };
    const one = await client.enqueue("client.later", { order: 1 }, options);
    const other = await client.enqueue("client.later", { order: 1 }, options);
    assert.equal(one.id, other.id);
    await assert.rejects(client.enqueue("client.later", { order: 2 }, options), { code: "idempotency_key_reused", status: 422 });
  });

  it("waiting ends with a typed error", async () => {
    const { client } = server();
    const { id } = await client.enqueue("client.later", null, { delayMs: 3_600_000 });
    await assert.rejects(client.wait(id, { timeoutMs: 300 }), (error) => error instanceof WaitTimeoutError && error.job === id);
    const waiting = assert.rejects(client.wait(id), JobCancelledError);
    assert.equal(await client.cancel(id), "cancelled");
    await waiting;
    await assert.rejects(client.wait("999999999"), { status: 404 });
    const aborted = new AbortController();
    aborted.abort(new Error("enough"));
    await assert.rejects(client.wait(id, { signal: aborted.signal }), /enough/);
  });

  it("a token is not sent over a network without TLS", async () => {
    const options = { url: "http://scheduler.internal:7171", token: "lc_secret" };
    assert.throws(() => new Client(options), /https/);
    assert.ok(new Client({ ...options, insecureHttp: true }));
    assert.ok(new Client({ ...options, url: "http://localhost:7171" }));
  });

  it("a server that is away is a ConnectionError after a while", async () => {
    const client = new Client({ url: "http://127.0.0.1:1", retryForMs: 300 });
    await assert.rejects(client.enqueue("client.later"), ConnectionError);
  });

  it("manifests are written, paused, resumed, run and deleted", async () => {
    const { manifests, job, cancel } = bound(server().client);
    const manifest = { kind: "client.report", schedule: { cron: "30 2 * * *", tz: "Europe/Berlin" }, input: { month: "last" } };
    assert.equal(await manifests.put("typescript.nightly", manifest), "created");
    assert.equal(await manifests.put("typescript.nightly", manifest), "unchanged");
    assert.equal(await manifests.put("typescript.nightly", { ...manifest, on_dead: "go_on" }), "updated");
    const stored = await manifests.get("typescript.nightly");
    assert.equal(stored.manifest?.schedule.cron, "30 2 * * *");
    assert.equal(stored.manifest?.on_dead, "go_on");
    assert.equal((await manifests.next("typescript.nightly", 3)).length, 3);
    const page = await manifests.list({ limit: 1_000 });
    assert.ok(page.items.some((item) => item.key === "typescript.nightly"));
    await manifests.pause("typescript.nightly");
    assert.equal((await manifests.next("typescript.nightly")).length, 0);
    await manifests.resume("typescript.nightly");
    const id = await manifests.run("typescript.nightly", { input: { month: "this" }, delayMs: 3_600_000 });
    assert.deepEqual((await job(id)).input, { month: "this" });
    await cancel(id);
    await manifests.delete("typescript.nightly");
    await manifests.delete("typescript.nightly");
    await assert.rejects(manifests.get("typescript.nightly"), { status: 404 });
  });
});

const bound = (client: Client) => ({
  manifests: client.manifests,
  job: (id: string) => client.job(id),
  cancel: (id: string) => client.cancel(id),
});
