/** What a handler is given. */

import { now } from "../time.js";
import { describe, type ErrorInfo } from "./outcome.js";
import { Permanent } from "./verdicts.js";

export type LogLevel = "error" | "warn" | "info" | "debug" | "trace";

/** A job in a claim or in a push request. */
export interface JobMessage {
  id: string;
  kind: string;
  input: unknown;
  manifest: string | null;
  tick_at: string | null;
  attempt: number;
  trace: string | null;
}

export interface StepRecord {
  name: string;
  position: number;
  took_ms: number;
  output?: unknown;
  error?: ErrorInfo;
}

export interface StepResult {
  found: boolean;
  output?: unknown;
}

export interface LogLine {
  at: string;
  level: LogLevel;
  text: string;
}

export interface Progress {
  fraction: number;
  text?: string;
}

/** Where a job sends what it reports. */
export interface Reports {
  log(line: LogLine): void;
  progress(progress: Progress): void;
  readStep(name: string): Promise<StepResult>;
  recordStep(step: StepRecord): Promise<void>;
}

export class Job {
  readonly id: string;
  readonly kind: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Grows with each claim of the job. */
  readonly claimNo: number;
  /** The key of the manifest, if one ordered the job. */
  readonly manifest: string | null;
  /** The moment of the schedule for which the job runs. */
  readonly tickAt: Date | null;
  /** The trace context (`traceparent`) of the enqueuer. */
  readonly trace: string | null;
  readonly timeoutMs: number;
  /** Aborted when the handler must stop: `reason` is `CancelRequested`, `TimedOut`, `ClaimLost` or `ShuttingDown`. */
  readonly signal: AbortSignal;
  readonly #reports: Reports;
  readonly #steps = new Set<string>();

  /** @internal */
  constructor(message: JobMessage, claim: { no: number; timeoutMs: number }, signal: AbortSignal, reports: Reports) {
    this.id = message.id;
    this.kind = message.kind;
    this.attempt = message.attempt;
    this.claimNo = claim.no;
    this.manifest = message.manifest;
    this.tickAt = message.tick_at === null ? null : new Date(message.tick_at);
    this.trace = message.trace;
    this.timeoutMs = claim.timeoutMs;
    this.signal = signal;
    this.#reports = reports;
  }

  /** Adds a line to the log of this execution. Lines are sent about once a second, and before the job ends. */
  log(text: string, level: LogLevel = "info"): void {
    this.#reports.log({ at: new Date().toISOString(), level, text });
  }

  /** Shows how far the job is, from 0 to 1. Only the latest value is sent, about once a second. */
  progress(fraction: number, text?: string): void {
    const clamped = Math.min(Math.max(Number.isFinite(fraction) ? fraction : 0, 0), 1);
    this.#reports.progress(text === undefined ? { fraction: clamped } : { fraction: clamped, text });
  }

  /**
   * Runs a named part of the handler once: a later attempt returns the recorded result. A result is JSON, at most
   * 64 KiB, and a name is used once in a run.
   */
  async step<T>(name: string, run: () => T | Promise<T>): Promise<T> {
    if (this.#steps.has(name)) throw new Permanent(`the step \`${name}\` is used twice`);
    this.#steps.add(name);
    const position = this.#steps.size;
    this.signal.throwIfAborted();
    // The first claim of a job has no steps to find.
    const earlier: StepResult = this.claimNo > 1 ? await this.#reports.readStep(name) : { found: false };
    if (earlier.found) return earlier.output as T;
    const started = now();
    const tookMs = () => Math.round(now() - started);
    let output: T;
    try {
      const text = JSON.stringify((await run()) ?? null);
      // The same value as a later attempt gets.
      output = JSON.parse(text) as T;
    } catch (error) {
      // The step's own error counts, also where it could not be recorded.
      await this.#reports.recordStep({ name, position, error: describe(error), took_ms: tookMs() }).catch(() => {});
      throw error;
    }
    await this.#reports.recordStep({ name, position, output, took_ms: tookMs() });
    return output;
  }
}
