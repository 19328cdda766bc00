/** What a handler throws to decide what happens next, and why its `job.signal` is aborted. */

import { LineclearError } from "../errors.js";

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Thrown by a handler: the job can never succeed. It becomes a dead letter at once. */
export class Permanent extends LineclearError {
  override name = "Permanent";

  constructor(error: unknown) {
    super(textOf(error), { cause: error });
  }
}

/** Thrown by a handler: failed; the next attempt is after this time. */
export class RetryIn extends LineclearError {
  override name = "RetryIn";

  constructor(readonly ms: number, error: unknown = "retry later") {
    super(textOf(error), { cause: error });
  }
}

/** Thrown by a handler: run again after this time. No failure is counted. */
export class Snooze extends LineclearError {
  override name = "Snooze";

  constructor(readonly ms: number) {
    super(`snoozed for ${ms} ms`);
  }
}

/** The reason of `job.signal`: the job was cancelled. */
export class CancelRequested extends LineclearError {
  override name = "CancelRequested";

  constructor() {
    super("the job was cancelled");
  }
}

/** The reason of `job.signal`: the timeout of the job is over. */
export class TimedOut extends LineclearError {
  override name = "TimedOut";

  constructor(readonly timeoutMs: number) {
    super(`the job did not end within ${timeoutMs} ms`);
  }
}

/** The reason of `job.signal`: the worker stops, and the grace period is over. */
export class ShuttingDown extends LineclearError {
  override name = "ShuttingDown";

  constructor() {
    super("the worker stops");
  }
}

/** The reason of `job.signal`: another worker may have the job now. No result is sent. */
export class ClaimLost extends LineclearError {
  override name = "ClaimLost";

  constructor(why: string) {
    super(`the claim is lost: ${why}`);
  }
}
