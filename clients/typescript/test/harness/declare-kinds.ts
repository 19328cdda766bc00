/** Makes kinds known to a server, as the first request of a worker does. */

import { randomUUID } from "node:crypto";

/**
 * A job that is enqueued before the server knows who runs its kind is claimed and released once by the server itself. Tests that count claims
 * make the kinds known first.
 */
export async function declareKinds(url: string, kinds: string[]): Promise<void> {
  const id = randomUUID();
  const worker = { id, name: "declares", host: "test", pid: 1, version: "test" };
  const body = JSON.stringify({ worker, kinds, slots: 1, wait_ms: 0 });
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/api/v1/claims`, { method: "POST", headers, body });
  if (response.status !== 200) throw new Error(await response.text());
  await fetch(`${url}/api/v1/workers/${id}`, { method: "DELETE" });
}
