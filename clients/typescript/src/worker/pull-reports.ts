/** What the jobs of a pull worker report: log, progress, steps and results, each in batches. */

import { Backoff, sleep } from "../time.js";
import { Batcher, type BatcherOptions } from "./batcher.js";
import { type Claim, keyOf } from "./claim.js";
import { ClaimReports, type ReportStatus } from "./claim-reports.js";
import { CLAIMS_MAX, type ClaimId, type ClaimsApi, type Settlement } from "./claims-api.js";
import type { LogLine, Progress, StepRecord, StepResult } from "./job.js";
import { failedPermanently, type Outcome } from "./outcome.js";
import { ClaimLost } from "./verdicts.js";

/** Below the server's limits of 512 KiB and of 8 MiB for results. */
const REPORT_BYTES_MAX = 400 * 1_024;
const SETTLE_BYTES_MAX = 4 * 1_024 * 1_024;
/** The longest pause before a result is sent again that the server skipped. */
const SKIPPED_MS_MAX = 1_000;

export class PullReports {
  readonly #held: Map<string, Claim>;
  readonly #logs: Batcher<ClaimId & { lines: LogLine[] }, ReportStatus>;
  readonly #progress: Batcher<ClaimId & Progress, ReportStatus>;
  readonly #steps: Batcher<ClaimId & StepRecord, ReportStatus>;
  readonly #readSteps: Batcher<ClaimId & { name: string }, StepResult>;
  readonly #settles: Batcher<Settlement, ReportStatus>;
  /** Results that the server skipped: others do not wait for them. */
  readonly #skipped: Batcher<Settlement, ReportStatus>;
  readonly #closed = new AbortController();

  constructor(api: ClaimsApi, held: Map<string, Claim>) {
    this.#held = held;
    this.#logs = this.#batcher((items) => api.logs(items), REPORT_BYTES_MAX, (item) => item.lines.length);
    this.#progress = this.#batcher((items) => api.progress(items), REPORT_BYTES_MAX);
    this.#steps = this.#batcher((items) => api.steps(items), REPORT_BYTES_MAX);
    this.#readSteps = this.#batcher((items) => api.readSteps(items), REPORT_BYTES_MAX);
    this.#settles = this.#batcher((items) => api.settle(items), SETTLE_BYTES_MAX);
    this.#skipped = this.#batcher((items) => api.settle(items), SETTLE_BYTES_MAX);
  }

  of(claim: Claim): ClaimReports {
    return new ClaimReports(claim, {
      logs: (lines) => this.#logs.add({ ...claim.id, lines }),
      progress: (progress) => this.#progress.add({ ...claim.id, ...progress }),
      step: (step) => this.#steps.add({ ...claim.id, ...step }),
      readStep: (name) => this.#readSteps.add({ ...claim.id, name }),
    });
  }

  /** The worker has left: nothing is repeated any more, so that its process can end. */
  close(): void {
    const left = new Error("the worker has left");
    const batchers = [this.#logs, this.#progress, this.#steps, this.#readSteps, this.#settles, this.#skipped];
    for (const batcher of batchers) batcher.close(left);
    this.#closed.abort();
  }

  /** Sends a result until the server has it. Throws `ClaimLost` if the server has given the job away. */
  async settle(claim: Claim, outcome: Outcome): Promise<void> {
    let status = await this.#settle(claim, outcome);
    if (status.status === "refused") {
      // Such as an output that is too long. Another attempt would return the same.
      const why = new Error(status.detail ?? "the server refused the result");
      status = await this.#settle(claim, failedPermanently(why));
    }
    if (status.status === "stale_claim") throw claim.lose("another worker may have the job");
    if (status.status === "refused") throw new Error(status.detail ?? "the server refused the result");
  }

  async #settle(claim: Claim, outcome: Outcome): Promise<ReportStatus> {
    try {
      const settlement = { ...claim.id, ...outcome };
      let status = await this.#settles.add(settlement);
      const backoff = new Backoff(SKIPPED_MS_MAX);
      while (status.status === "skipped") {
        await sleep(backoff.nextMs(), this.#closed.signal);
        status = await this.#skipped.add(settlement);
      }
      return status;
    } catch (error) {
      if (error instanceof ClaimLost) throw error;
      return { status: "refused", detail: error instanceof Error ? error.message : String(error) };
    }
  }

  #batcher<Item extends ClaimId, Answer>(
    send: BatcherOptions<Item, Answer>["send"],
    bytesMax: number,
    weight: (item: Item) => number = () => 1,
  ): Batcher<Item, Answer> {
    const givenUp = (item: Item, tries: number) => this.#held.get(keyOf(item))?.checkLate(tries);
    // The server takes 1,000 claims, and 1,000 lines of logs, in one call.
    return new Batcher({ send, givenUp, weight, weightMax: CLAIMS_MAX, bytesMax });
  }
}
