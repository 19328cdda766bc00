/** Replies to requests of the last minutes: a repeated request gets the same one, and runs nothing again. */

import { now } from "../time.js";

const BYTES_MAX = 16 * 1_024 * 1_024;
const REPLIES_MAX = 10_000;

interface Kept<Reply> {
  reply: Promise<Reply>;
  /** When it may be forgotten; `undefined` while the job runs. */
  until: number | undefined;
  bytes: number;
}

export class Replies<Reply> {
  readonly #kept = new Map<string, Kept<Reply>>();
  readonly #keepMs: number;
  #bytes = 0;

  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  get(id: string): Promise<Reply> | undefined {
    return this.#kept.get(id)?.reply;
  }

  /** Keeps a reply from now on, if it is one that must not be computed again. */
  add(id: string, reply: Promise<Reply>, bytesOf: (reply: Reply) => number | undefined): void {
    const kept: Kept<Reply> = { reply, until: undefined, bytes: 0 };
    this.#kept.set(id, kept);
    const finish = (bytes: number | undefined) => {
      if (bytes === undefined) return this.#forget(id);
      kept.until = now() + this.#keepMs;
      kept.bytes = bytes;
      this.#bytes += bytes;
      this.#trim();
    };
    reply.then((done) => finish(bytesOf(done)), () => finish(undefined));
  }

  #trim(): void {
    for (const [id, { until }] of this.#kept) {
      const tooMuch = this.#bytes > BYTES_MAX || this.#kept.size > REPLIES_MAX;
      if (until !== undefined && (tooMuch || until < now())) this.#forget(id);
      else if (!tooMuch) break;
    }
  }

  #forget(id: string): void {
    this.#bytes -= this.#kept.get(id)?.bytes ?? 0;
    this.#kept.delete(id);
  }
}
