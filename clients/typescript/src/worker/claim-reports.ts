/** The log, the progress and the steps of one job, on their way to the server. */

import { sleep, startTimer, type Timer } from "../time.js";
import type { Claim } from "./claim.js";
import type { LogLine, Progress, Reports, StepRecord, StepResult } from "./job.js";
import { Permanent } from "./verdicts.js";

/** How long lines and progress are gathered. */
const FLUSH_MS = 1_000;
/** A result does not wait longer than this for the log. */
const LAST_LINES_MS = 10_000;
/** What waits to be sent, at most; further lines are dropped, and one more says how many. The server keeps 1,000 of an execution. */
const LINES_MAX = 999;
const BYTES_MAX = 256 * 1_024;
const LINE_CHARS_MAX = 8 * 1_024;

/** What became of a report. */
export interface ReportStatus {
  /** `skipped`: another transaction has the row of the job; send it again. */
  status: "recorded" | "skipped" | "stale_claim" | "refused";
  detail?: string | null;
}

/** How reports are sent: in batches by a pull worker, to the callback by a push worker. */
export interface ReportSender {
  logs(lines: LogLine[]): Promise<ReportStatus>;
  progress(progress: Progress): Promise<ReportStatus>;
  step(step: StepRecord): Promise<ReportStatus>;
  readStep(name: string): Promise<StepResult>;
}

export class ClaimReports implements Reports {
  readonly #claim: Claim;
  readonly #sender: ReportSender;
  #lines: LogLine[] = [];
  #bytes = 0;
  #dropped = 0;
  #progress: Progress | undefined;
  #timer: Timer | undefined;
  #sending: Promise<unknown> | undefined;

  constructor(claim: Claim, sender: ReportSender) {
    this.#claim = claim;
    this.#sender = sender;
  }

  log(line: LogLine): void {
    const text = line.text.slice(0, LINE_CHARS_MAX);
    const bytes = JSON.stringify(text).length;
    if (this.#lines.length >= LINES_MAX || this.#bytes + bytes > BYTES_MAX) {
      this.#dropped += 1;
      return;
    }
    this.#lines.push({ ...line, text });
    this.#bytes += bytes;
    this.#flushSoon();
  }

  progress(progress: Progress): void {
    this.#progress = progress;
    this.#flushSoon();
  }

  readStep(name: string): Promise<StepResult> {
    return this.#sender.readStep(name);
  }

  async recordStep(step: StepRecord): Promise<void> {
    const { status, detail } = await this.#sender.step(step);
    if (status === "stale_claim") throw this.#claim.lose("another worker may have the job");
    if (status === "refused") throw new Permanent(detail ?? `the server refused the step \`${step.name}\``);
  }

  /** Sends what waits. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#send();
    if (this.#sending === undefined) return;
    const sent = new AbortController();
    await Promise.race([this.#sending, sleep(LAST_LINES_MS, sent.signal)]);
    sent.abort();
  }

  #flushSoon(): void {
    this.#timer ??= startTimer(FLUSH_MS, () => this.#send());
  }

  #send(): void {
    this.#timer = undefined;
    if (this.#dropped > 0) {
      const text = `${this.#dropped} lines were dropped`;
      this.#lines.push({ at: new Date().toISOString(), level: "warn", text });
    }
    const reports: Promise<unknown>[] = [];
    if (this.#lines.length > 0) reports.push(this.#sender.logs(this.#lines));
    if (this.#progress !== undefined) reports.push(this.#sender.progress(this.#progress));
    this.#lines = [];
    this.#bytes = 0;
    this.#dropped = 0;
    this.#progress = undefined;
    if (reports.length === 0) return;
    // They inform people: a failure to send them fails no job.
    this.#sending = Promise.allSettled([this.#sending, ...reports]);
  }
}
