/** The client of Lineclear: enqueues jobs, waits for them, and runs them. */

export { Client, type ClientOptions, type EnqueueOptions, type NewJob, type RunOptions, type WaitOptions } from "./client.js";
export { Manifests, type RunManifestOptions } from "./manifests.js";
export type * from "./types.js";
export { ApiError, ConnectionError, JobCancelledError, JobFailedError, LineclearError, WaitTimeoutError, type FieldProblem } from "./errors.js";
export { Worker, type WorkerOptions } from "./worker/worker.js";
export type { Handler, KindOptions } from "./worker/kinds.js";
export type { Job, LogLevel } from "./worker/job.js";
export { CancelRequested, ClaimLost, Permanent, RetryIn, ShuttingDown, Snooze, TimedOut } from "./worker/verdicts.js";
export { pushHandler, type PushHandler, type PushOptions } from "./push/handler.js";
