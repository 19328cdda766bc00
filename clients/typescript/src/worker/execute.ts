/** Runs one handler. */

import { sleep, startTimer } from "../time.js";
import type { Job } from "./job.js";
import type { Kind } from "./kinds.js";
import { completed, failedPermanently, isVerdict, stopped, threw, type Outcome } from "./outcome.js";
import { TimedOut } from "./verdicts.js";

/** How long a handler may take to end after its signal was aborted. */
const STOP_MS = 5_000;

/** Runs a handler until it ends, or does not stop when told to. Returns `undefined` if the claim is lost. */
export async function execute(kind: Kind, job: Job, input: unknown, control: AbortController): Promise<Outcome | undefined> {
  const timeout = startTimer(job.timeoutMs, () => control.abort(new TimedOut(job.timeoutMs)));
  const finished = new AbortController();
  try {
    return await Promise.race([handle(kind, job, input), giveUp(job.signal, finished.signal)]);
  } finally {
    clearTimeout(timeout);
    finished.abort();
  }
}

async function handle(kind: Kind, job: Job, input: unknown): Promise<Outcome | undefined> {
  let parsed = input;
  try {
    parsed = kind.parse ? kind.parse(input) : input;
  } catch (error) {
    return failedPermanently(error);
  }
  try {
    return completed(await kind.handler(job, parsed));
  } catch (error) {
    // A handler that was told to stop throws anything. Its own decision counts all the same.
    return job.signal.aborted && !isVerdict(error) ? stopped(job.signal.reason) : threw(error);
  }
}

/** Resolves when a handler had its time to stop. Code that ignores the signal cannot be ended; its result is ignored. */
async function giveUp(signal: AbortSignal, finished: AbortSignal): Promise<Outcome | undefined> {
  await new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", resolve, { once: true });
    finished.addEventListener("abort", resolve, { once: true });
  });
  await sleep(STOP_MS, finished);
  return stopped(signal.reason);
}
