/** Enqueues jobs and waits for them. Runs in Node and in browsers. */

import { camelCase } from "./camel-case.js";
import { Connection, type ConnectionOptions } from "./connection.js";
import { ApiError, isTemporary, JobCancelledError, JobFailedError, WaitTimeoutError } from "./errors.js";
import { Manifests } from "./manifests.js";
import { randomUuid } from "./platform.js";
import { query } from "./query.js";
import { Backoff, now, sleep } from "./time.js";
import type { Enqueued, JobDetails, JobState, LogLine, Page } from "./types.js";

export interface ClientOptions extends ConnectionOptions {
  /** How long to repeat a request that gets no response. The default is 30 seconds. */
  retryForMs?: number | undefined;
}

export interface EnqueueOptions {
  /** The earliest time to run. */
  dueAt?: Date | string | undefined;
  /** The earliest time to run, in milliseconds from now, on the clock of the database. */
  delayMs?: number | undefined;
  /** 0 to 31; each step counts like ten minutes of waiting. */
  priority?: number | undefined;
  /** Shares the limit, the priority and the pause switch of a group, which must exist. */
  group?: string | undefined;
  /** At most one unfinished job has this key. */
  uniqueKey?: string | undefined;
  /** What to do if another job has the unique key. The default is `existing`. */
  onConflict?: "existing" | "same" | "refuse" | "replace" | undefined;
  /** At most one job with this key runs at a time, unless the key has another limit. */
  limitKey?: string | undefined;
  /** Attempts after the first one. */
  retries?: number | undefined;
  /** The longest time that one attempt may run. */
  timeoutMs?: number | undefined;
  /** Words for searching. */
  tags?: string[] | undefined;
  route?: string | undefined;
  /** Calls with the same key create one job. The default is a new key for each call, which covers lost responses. */
  idempotencyKey?: string | undefined;
}

export interface NewJob extends Omit<EnqueueOptions, "idempotencyKey"> {
  kind: string;
  input?: unknown;
}

export interface WaitOptions {
  /** How long to wait for the end of the job. The default is 5 minutes. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface RunOptions extends EnqueueOptions {
  /** How long to wait for the end of the job. The default is 5 minutes. */
  waitMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

const RETRY_FOR_MS = 30_000;
const WAIT_TIMEOUT_MS = 300_000;
/** The longest that one request waits for a job. */
const WAIT_SECONDS_MAX = 25;
const RUN_WAIT_MS_MAX = 60_000;
/** How much longer than the server waits the client waits for the server. */
const GRACE_MS = 10_000;

/** The response to a request that runs a job. */
interface RanJob {
  job: string;
  state: JobState;
  outcome?: string | null;
  output?: unknown;
  error?: { type?: string | null; message?: string | null } | null;
}

/** How a job ended. */
interface End {
  id: string;
  state: JobState;
  outcome?: string | null | undefined;
  output?: unknown;
  errorType?: string | null | undefined;
  errorMessage?: string | null | undefined;
}

export class Client {
  readonly manifests: Manifests;
  readonly #connection: Connection;
  readonly #retryForMs: number;

  constructor(options: ClientOptions) {
    this.#connection = new Connection(options);
    this.#retryForMs = options.retryForMs ?? RETRY_FOR_MS;
    this.manifests = new Manifests((method, path, call) => this.#call(method, path, call));
  }

  /** Enqueues a job. It is called until the server responds, and creates one job. */
  async enqueue(kind: string, input?: unknown, options: EnqueueOptions = {}): Promise<Enqueued> {
    const { idempotencyKey, ...rest } = options;
    const body = newJobBody({ ...rest, kind, input });
    return this.#create<Enqueued>("/jobs", body, idempotencyKey);
  }

  /** Enqueues up to 1,000 jobs, all or none. */
  async enqueueMany(jobs: NewJob[], options: { idempotencyKey?: string } = {}): Promise<Enqueued[]> {
    const body = { jobs: jobs.map(newJobBody) };
    const reply = await this.#create<{ jobs: Enqueued[] }>("/jobs/batch", body, options.idempotencyKey);
    return reply.jobs;
  }

  /** A job with its input, executions and steps. */
  async job(id: string): Promise<JobDetails> {
    return camelCase(await this.#call("GET", jobPath(id)));
  }

  /** Cancels a job: `cancelled` if it waited, `asked` if it runs and was told to stop. */
  async cancel(id: string): Promise<"cancelled" | "asked"> {
    const reply = (await this.#call("POST", `${jobPath(id)}/cancel`)) as { became: "cancelled" | "asked" };
    return reply.became;
  }

  /** A page of the job's log, oldest line first. */
  async logs(id: string, options: { limit?: number; cursor?: string } = {}): Promise<Page<LogLine>> {
    return camelCase(await this.#call("GET", `${jobPath(id)}/logs${query(options)}`));
  }

  /**
   * Waits for the end of a job and returns its output. Throws `JobFailedError`, `JobCancelledError`, or
   * `WaitTimeoutError` if it has not ended in time.
   */
  async wait<Output = unknown>(id: string, options: WaitOptions = {}): Promise<Output> {
    const timeoutMs = options.timeoutMs ?? WAIT_TIMEOUT_MS;
    const until = now() + timeoutMs;
    const backoff = new Backoff();
    for (;;) {
      const started = now();
      const seconds = Math.min(Math.ceil(Math.max(until - started, 0) / 1000), WAIT_SECONDS_MAX);
      try {
        const headers = { prefer: `wait=${seconds}` };
        const timeout = { timeoutMs: seconds * 1000 + GRACE_MS, signal: options.signal };
        const reply = await this.#connection.send("GET", jobPath(id), { headers, ...timeout });
        const job = camelCase<JobDetails>(reply.body);
        if (isOver(job.state)) return outputOf<Output>(endOf(job));
        // A server that has too many waiting requests, or stops, answers at once.
        if (reply.headers.has("preference-applied")) backoff.reset();
        else await sleep(backoff.nextMs(), options.signal);
      } catch (error) {
        if (!isTemporary(error)) throw error;
        await sleep(backoff.nextMs(error instanceof ApiError ? error.retryAfterMs : 0), options.signal);
      }
      options.signal?.throwIfAborted();
      if (now() >= until) throw new WaitTimeoutError(id, timeoutMs);
    }
  }

  /** Runs a job and returns its output, as `wait` does. */
  async run<Output = unknown>(kind: string, input?: unknown, options: RunOptions = {}): Promise<Output> {
    const { waitMs = WAIT_TIMEOUT_MS, signal, idempotencyKey = randomUuid(), ...rest } = options;
    const until = now() + waitMs;
    const left = () => ({ timeoutMs: Math.max(until - now(), 0), signal });
    if (Object.values(rest).some((option) => option !== undefined)) {
      const { id } = await this.enqueue(kind, input, { ...rest, idempotencyKey });
      return this.wait<Output>(id, left());
    }
    // One request enqueues and waits.
    const wait = Math.min(waitMs, RUN_WAIT_MS_MAX);
    const path = `/run/${encodeURIComponent(kind)}${query({ wait_ms: Math.round(wait) })}`;
    const call = { body: input, headers: { "idempotency-key": idempotencyKey }, timeoutMs: wait + GRACE_MS, signal };
    const ran = (await this.#connection.repeat("POST", path, call, wait + this.#retryForMs)).body as RanJob;
    const { job: id, state, outcome, output, error } = ran;
    if (!isOver(state)) return this.wait<Output>(id, left());
    return outputOf<Output>({ id, state, outcome, output, errorType: error?.type, errorMessage: error?.message });
  }

  /** Creates something once, however many requests it takes. */
  async #create<T>(path: string, body: unknown, key = randomUuid()): Promise<T> {
    return (await this.#call("POST", path, { body, headers: { "idempotency-key": key } })) as T;
  }

  async #call(method: string, path: string, call = {}): Promise<unknown> {
    return (await this.#connection.repeat(method, path, call, this.#retryForMs)).body;
  }
}

const jobPath = (id: string): string => `/jobs/${encodeURIComponent(id)}`;

const isOver = (state: JobState): boolean => ["completed", "cancelled", "dead"].includes(state);

function newJobBody(job: NewJob): Record<string, unknown> {
  const { dueAt } = job;
  return {
    kind: job.kind,
    input: job.input,
    due_at: dueAt instanceof Date ? dueAt.toISOString() : dueAt,
    in_ms: job.delayMs,
    priority: job.priority,
    group: job.group,
    unique_key: job.uniqueKey,
    on_conflict: job.onConflict,
    limit_key: job.limitKey,
    retries: job.retries,
    timeout_ms: job.timeoutMs,
    tags: job.tags,
    route: job.route,
  };
}

function endOf(job: JobDetails): End {
  const last = job.executions.at(-1);
  const { outcome, output, errorType } = last ?? {};
  return { id: job.id, state: job.state, outcome, output, errorType, errorMessage: last?.errorMessage ?? job.lastError };
}

function outputOf<Output>(end: End): Output {
  if (end.state === "completed") return (end.output ?? null) as Output;
  if (end.state === "cancelled") throw new JobCancelledError(end.id);
  throw new JobFailedError(end.id, end.outcome ?? "failed", end.errorType ?? undefined, end.errorMessage ?? undefined);
}
