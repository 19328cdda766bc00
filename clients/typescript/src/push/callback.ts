/** The callbacks of one claim of a push worker. */

import { Connection, type ConnectionOptions } from "../connection.js";
import { ApiError } from "../errors.js";
import { Backoff, now, sleep } from "../time.js";
import { type Claim, KEPT_MS } from "../worker/claim.js";
import type { ReportSender, ReportStatus } from "../worker/claim-reports.js";
import type { LogLine, Progress, StepRecord, StepResult } from "../worker/job.js";
import { failedPermanently, type Outcome } from "../worker/outcome.js";

/** How long a report is repeated while the server does not answer. A result is repeated until its claim is given up. */
const REPEAT_MS = 10_000;
const RENEWALS_PER_LEASE = 3;
/** The longest pause before a result is sent again that the server skipped, because another transaction has the row of its job. */
const SKIPPED_MS_MAX = 1_000;

export class Callback implements ReportSender {
  readonly #connection: Connection;

  constructor(url: string, token: string, fetch: ConnectionOptions["fetch"]) {
    // The server chose this URL, and its token is for this claim alone.
    this.#connection = new Connection({ url, token, fetch, insecureHttp: true }, "");
  }

  logs(lines: LogLine[]): Promise<ReportStatus> {
    return this.#report("logs", { lines });
  }

  progress(progress: Progress): Promise<ReportStatus> {
    return this.#report("progress", progress);
  }

  step(step: StepRecord): Promise<ReportStatus> {
    return this.#report("steps", step);
  }

  async readStep(name: string): Promise<StepResult> {
    try {
      const reply = await this.#connection.repeat("POST", "/steps/read", { body: { name } }, REPEAT_MS);
      return reply.body as StepResult;
    } catch (error) {
      // A server that does not tell: the step runs again.
      if (error instanceof ApiError && error.status === 404) return { found: false };
      throw error;
    }
  }

  /** Sends the result. Throws `ClaimLost` if the server has given the job away. */
  async settle(claim: Claim, outcome: Outcome): Promise<void> {
    let status = await this.#settle(claim, outcome);
    if (status.status === "refused") {
      const why = new Error(status.detail ?? "the server refused the result");
      status = await this.#settle(claim, failedPermanently(why));
    }
    if (status.status === "stale_claim") throw claim.lose("another worker may have the job");
    if (status.status === "skipped") throw new Error("another transaction has the row of the job");
    if (status.status === "refused") throw new Error(status.detail ?? "the server refused the result");
  }

  async #settle(claim: Claim, outcome: Outcome): Promise<ReportStatus> {
    const until = claim.leaseEnds + KEPT_MS;
    const backoff = new Backoff(SKIPPED_MS_MAX);
    for (;;) {
      const status = await this.#report("settle", outcome, until - now());
      if (status.status !== "skipped" || now() > until) return status;
      await sleep(backoff.nextMs());
    }
  }

  /** Renews the lease until `ended`. */
  async renew(claim: Claim, ended: AbortSignal): Promise<void> {
    let failures = 0;
    while (!ended.aborted && claim.lost === undefined) {
      await sleep(claim.leaseMs / RENEWALS_PER_LEASE / (failures + 1), ended);
      if (ended.aborted) return;
      const sentAt = now();
      try {
        const call = { body: {}, timeoutMs: claim.leaseMs / RENEWALS_PER_LEASE };
        const { body } = await this.#connection.send("POST", "/renew", call);
        const renewal = body as { status: string; cancel?: boolean; lease_ms?: number };
        if (renewal.status === "renewed") claim.renewed(sentAt, renewal.lease_ms ?? claim.leaseMs);
        if (renewal.cancel) claim.cancel();
        failures = 0;
      } catch (error) {
        failures += 1;
        if (error instanceof ApiError && [401, 409].includes(error.status)) claim.lose("another worker may have the job");
        else if (now() > claim.leaseEnds) claim.lose("the lease could not be renewed in time");
      }
    }
  }

  async #report(path: string, body: object, repeatMs = REPEAT_MS): Promise<ReportStatus> {
    try {
      return (await this.#connection.repeat("POST", `/${path}`, { body }, repeatMs)).body as ReportStatus;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // The token of a claim ends with it.
      if ([401, 409].includes(error.status)) return { status: "stale_claim" };
      if ([400, 413, 422].includes(error.status)) return { status: "refused", detail: error.message };
      throw error;
    }
  }
}
