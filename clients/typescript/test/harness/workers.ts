/** Workers that end with the test: in this process, or in their own. */

import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { type Handler, Worker, type WorkerOptions } from "lineclear";
import { Child } from "./child.js";
import { declareKinds } from "./declare-kinds.js";

const FIXTURE = fileURLToPath(new URL("../fixtures/worker.js", import.meta.url));

/** Starts a worker in its own process: see `fixtures/worker.ts`. */
export async function startProcess(t: TestContext, url: string, env: { NAME?: string; GRACE_MS?: string; THREAD?: string } = {}): Promise<Child> {
  const child = new Child(process.execPath, [FIXTURE], { env: { URL: url, ...env } });
  t.after(() => child.end());
  await child.line("ready");
  return child;
}

/** The kinds of `fixtures/worker.ts`. */
export const FIXTURE_KINDS = ["sleep", "wait", "block", "endless"];

/** Starts a worker with these handlers in this process. */
export async function startWorker(
  t: TestContext,
  url: string,
  kinds: Record<string, Handler<any, unknown>>,
  options: Partial<WorkerOptions> = {},
): Promise<Worker> {
  await declareKinds(url, Object.keys(kinds));
  const worker = new Worker({ url, name: "typescript", handleSignals: false, graceMs: 0, onWarning: () => {}, ...options });
  for (const [kind, handler] of Object.entries(kinds)) worker.kind(kind, handler);
  const running = worker.run();
  // A worker that is refused fails the test.
  t.after(async () => {
    worker.stop();
    await running;
  });
  return worker;
}
