/** A thread that renews leases while a handler blocks the event loop of the worker. It starts with its own connection. */

import { parentPort, workerData } from "node:worker_threads";

import { Connection } from "../connection.js";
import { Claim } from "./claim.js";
import { ClaimsApi } from "./claims-api.js";
import type { RenewThreadData, RenewThreadMessage } from "./renew-thread-messages.js";
import { Renewer } from "./renewer.js";

/** How much longer than its timeout a claim is renewed: a handler that never ends must not keep its job for ever. */
const STOP_MS = 5_000;

const { url, token, insecureHttp, worker } = workerData as RenewThreadData;
const held = new Map<string, Claim>();
const api = new ClaimsApi(new Connection({ url, token, insecureHttp }), worker, "");
// The worker renews, too, and tells of failures.
const renewer = new Renewer(api, held, () => {});
renewer.start();

parentPort!.on("message", (message: RenewThreadMessage) => {
  if ("ended" in message) {
    held.delete(message.ended);
    return;
  }
  const claim = new Claim(message.claimed);
  held.set(claim.key, claim);
  renewer.added(claim);
  setTimeout(() => held.delete(claim.key), Math.min(claim.timeoutMs + STOP_MS, 2 ** 31 - 1));
});
