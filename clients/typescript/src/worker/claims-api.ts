/** The calls of a pull worker. */

import type { Connection } from "../connection.js";
import { ApiError } from "../errors.js";
import { platform } from "../platform.js";
import type { ReportStatus } from "./claim-reports.js";
import type { JobMessage, LogLine, Progress, StepRecord, StepResult } from "./job.js";
import type { Outcome } from "./outcome.js";

export interface ClaimId {
  job: string;
  no: number;
}

export interface ClaimMessage {
  job: JobMessage;
  claim: { no: number; lease_ms: number; timeout_ms: number };
}

export interface Renewal extends ClaimId {
  status: "renewed" | "skipped" | "stale_claim";
  cancel: boolean;
}

export type Settlement = ClaimId & Outcome;

export const VERSION = "lineclear-typescript/0.1.0";

/** Most claims in one call. */
export const CLAIMS_MAX = 1_000;

const TIMEOUT_MS = 15_000;

export class ClaimsApi {
  readonly #connection: Connection;
  readonly #worker: string;
  readonly #name: string;

  constructor(connection: Connection, worker: string, name: string) {
    this.#connection = connection;
    this.#worker = worker;
    this.#name = name;
  }

  /** Waits for jobs; `drain`: an operator wants that the worker takes no more. With `resume`, first returns claims whose response was lost: those that are not in `held`. */
  async claim(
    ask: { kinds: string[]; slots: number; wait_ms: number; resume: boolean; held: ClaimId[] },
    signal?: AbortSignal,
  ): Promise<{ claims: ClaimMessage[]; drain: boolean }> {
    const { host, pid } = platform;
    const body = { worker: { id: this.#worker, name: this.#name, host, pid, version: VERSION }, ...ask };
    const timeoutMs = ask.wait_ms + TIMEOUT_MS;
    const reply = await this.#connection.send("POST", "/claims", { body, timeoutMs, signal });
    const { claims, worker } = reply.body as { claims: ClaimMessage[]; worker: { drain?: boolean } };
    return { claims, drain: worker.drain === true };
  }

  async renew(claims: ClaimId[], timeoutMs: number) {
    const reply = await this.#post("renew", { claims }, timeoutMs);
    return reply as { lease_ms: number; drain: boolean; claims: Renewal[] };
  }

  async progress(claims: (ClaimId & Progress)[]): Promise<ReportStatus[]> {
    return statuses(claims, await this.#post("progress", { claims }));
  }

  async logs(claims: (ClaimId & { lines: LogLine[] })[]): Promise<ReportStatus[]> {
    return statuses(claims, await this.#post("logs", { claims }));
  }

  async steps(steps: (ClaimId & StepRecord)[]): Promise<ReportStatus[]> {
    return statuses(steps, await this.#post("steps", { steps }));
  }

  async readSteps(steps: (ClaimId & { name: string })[]): Promise<StepResult[]> {
    return ((await this.#post("steps/read", { steps })) as { steps: StepResult[] }).steps;
  }

  async settle(claims: Settlement[]): Promise<ReportStatus[]> {
    return statuses(claims, await this.#post("settle", { claims }));
  }

  /** The worker leaves: what it still holds is released. */
  async leave(): Promise<void> {
    await this.#connection.send("DELETE", `/workers/${this.#worker}`, { timeoutMs: TIMEOUT_MS });
  }

  async #post(path: string, body: object, timeoutMs = TIMEOUT_MS): Promise<unknown> {
    try {
      const call = { body: { worker: this.#worker, ...body }, timeoutMs };
      return (await this.#connection.send("POST", `/claims/${path}`, call)).body;
    } catch (error) {
      // If every claim of a batch is stale, the response is a problem with the usual list in it.
      if (error instanceof ApiError && error.code === "stale_claim") return error.body;
      throw error;
    }
  }
}

/** The statuses of `items`, in their order. */
function statuses(items: ClaimId[], reply: unknown): ReportStatus[] {
  const { claims, steps } = reply as { claims?: ReportStatus[]; steps?: ReportStatus[] };
  return claims ?? steps ?? items.map(() => ({ status: "stale_claim" }));
}
