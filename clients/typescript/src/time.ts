/** Durations, deadlines and waiting. */

/** The longest time that `setTimeout` can wait; it fires at once for a longer one. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** A clock that is never set back, in milliseconds. */
export const now = (): number => performance.now();

export type Timer = ReturnType<typeof setTimeout>;

export function startTimer(ms: number, run: () => void): Timer {
  return setTimeout(run, Math.min(Math.max(ms, 0), TIMER_MS_MAX));
}

/** Resolves after `ms`, or as soon as `signal` is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = startTimer(ms, done);
    signal?.addEventListener("abort", done);
  });
}

const BACKOFF_FIRST_MS = 100;
const BACKOFF_MAX_MS = 5_000;
const RETRY_AFTER_MAX_MS = 60_000;

/** Waiting times between repeated requests. They double, and are random, so that clients do not return all at once. */
export class Backoff {
  #next = BACKOFF_FIRST_MS;

  constructor(readonly maxMs: number = BACKOFF_MAX_MS) {}

  /** The next waiting time; not below what the server asked for. */
  nextMs(retryAfterMs = 0): number {
    const ms = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(this.#next * 2, this.maxMs);
    return Math.max(ms, Math.min(retryAfterMs, RETRY_AFTER_MAX_MS));
  }

  reset(): void {
    this.#next = BACKOFF_FIRST_MS;
  }
}
