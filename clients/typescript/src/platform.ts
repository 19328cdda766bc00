/** What differs between browsers and Node. These are the values of a browser; `node-platform.ts` sets those of Node. */

import type { RenewThread, RenewThreadData } from "./worker/renew-thread-messages.js";

export interface Platform {
  crypto: Crypto;
  host: string;
  pid: number;
  /** Calls `listener` for each request to stop, and returns how to unsubscribe. */
  onStopSignal(listener: () => void): () => void;
  /** Starts a thread that renews leases. */
  startRenewThread(data: RenewThreadData): RenewThread;
}

export const platform: Platform = {
  crypto: globalThis.crypto,
  host: "unknown",
  pid: 0,
  onStopSignal: () => () => {},
  startRenewThread: () => {
    throw new TypeError("`renewInThread` needs Node");
  },
};

/** 128 random bits in the form of a UUID. `crypto.randomUUID` is missing on pages without https. */
export function randomUuid(): string {
  const bytes = platform.crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
