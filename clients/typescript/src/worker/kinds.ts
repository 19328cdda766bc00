/** The kinds of a worker and their handlers. */

import type { Job } from "./job.js";

/** Runs one job. What it returns is the output; what it throws is the failure. */
export type Handler<Input, Output> = (job: Job, input: Input) => Output | Promise<Output>;

export interface KindOptions<Input> {
  /** Checks the input, for instance the `parse` of a schema. If it throws, the job fails permanently. */
  parse?: ((input: unknown) => Input) | undefined;
}

export interface Kind {
  name: string;
  handler: Handler<unknown, unknown>;
  parse: ((input: unknown) => unknown) | undefined;
}
