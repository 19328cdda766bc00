/** The platform of Node. Node 18 has no global `crypto`. */

import { webcrypto } from "node:crypto";
import { hostname } from "node:os";
import process from "node:process";
import { Worker as Thread } from "node:worker_threads";

import { platform } from "./platform.js";

const STOP_SIGNALS = ["SIGTERM", "SIGINT"] as const;

platform.crypto = webcrypto as unknown as Crypto;
platform.host = hostname();
platform.pid = process.pid;
platform.onStopSignal = (listener) => {
  for (const signal of STOP_SIGNALS) process.on(signal, listener);
  return () => {
    for (const signal of STOP_SIGNALS) process.off(signal, listener);
  };
};
platform.startRenewThread = (data) => {
  const thread = new Thread(new URL("./worker/renew-thread.js", import.meta.url), { workerData: data });
  thread.unref();
  return { tell: (message) => thread.postMessage(message), end: () => void thread.terminate() };
};
