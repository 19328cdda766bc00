/** Wakes what waits for a condition. */

import { now, sleep } from "./time.js";

export class Changes {
  #change = new AbortController();

  /** Tells those who wait to look again. */
  notify(): void {
    this.#change.abort();
    this.#change = new AbortController();
  }

  /** Waits until the condition holds, at most for `ms`. */
  async until(condition: () => boolean, ms = Infinity): Promise<void> {
    const ends = now() + ms;
    while (!condition() && now() < ends) await sleep(ends - now(), this.#change.signal);
  }
}
