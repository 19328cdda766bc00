import assert from "node:assert/strict";
import { it } from "node:test";
import { fileURLToPath } from "node:url";

import { Child } from "./harness/child.js";
import { suite } from "./harness/suite.js";

const start = (example: string, env: Record<string, string>) =>
  new Child(process.execPath, [fileURLToPath(new URL(`readme/${example}.js`, import.meta.url))], { env });

suite("README", { concurrency: 1 }, (server) => {
  it("the examples of the README work", async (t) => {
    const { client, url } = server();
    const worker = start("a-worker", { URL: url });
    t.after(() => worker.end());
    const caller = start("enqueue-and-wait", { URL: url });
    assert.equal(await caller.exit(), 0, caller.lines.join("\n"));
    assert.match(caller.lines.join("\n"), /^charge-\d+\nscheduled$/);

    const manifests = start("manifests", { URL: url });
    assert.equal(await manifests.exit(), 0, manifests.lines.join("\n"));
    assert.ok(manifests.lines.some((line) => line.startsWith("nightly 2")), manifests.lines.join("\n"));
    await client.manifests.delete("nightly");
    assert.equal(await worker.end("SIGTERM"), 0, worker.lines.join("\n"));

    const push = start("push", { URL: url, PORT: "0" });
    t.after(() => push.end());
    assert.equal(await push.end("SIGTERM"), null);
  });
});
