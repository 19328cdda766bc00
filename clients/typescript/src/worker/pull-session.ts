/** One run of a pull worker, from its first request for jobs until it leaves. */

import { Changes } from "../changes.js";
import { Connection, type ConnectionOptions } from "../connection.js";
import { ApiError, isTemporary } from "../errors.js";
import { platform, randomUuid } from "../platform.js";
import { Backoff, now, sleep } from "../time.js";
import { Claim } from "./claim.js";
import { CLAIMS_MAX, type ClaimMessage, ClaimsApi } from "./claims-api.js";
import { execute } from "./execute.js";
import { Job } from "./job.js";
import type { Kind } from "./kinds.js";
import { PullReports } from "./pull-reports.js";
import type { RenewThread } from "./renew-thread-messages.js";
import { Renewer } from "./renewer.js";
import { ClaimLost, ShuttingDown } from "./verdicts.js";

export interface SessionOptions extends ConnectionOptions {
  url: string;
  token: string | undefined;
  slots: number;
  name: string;
  graceMs: number;
  waitMs: number;
  renewInThread: boolean;
  warn(message: string, error?: unknown): void;
}

/** How long a worker that stops waits for its results to arrive. */
const LAST_RESULTS_MS = 10_000;
/** How often a worker that drains looks whether it may take jobs again. */
const DRAIN_POLL_MS = 500;

export class PullSession {
  readonly #options: SessionOptions;
  readonly #kinds: Map<string, Kind>;
  readonly #worker = randomUuid();
  readonly #api: ClaimsApi;
  readonly #reports: PullReports;
  readonly #renewer: Renewer;
  /** Claims whose handlers run or whose results are on the way, by their keys. */
  readonly #held = new Map<string, Claim>();
  /** Claims that occupy a slot. */
  readonly #running = new Set<Claim>();
  readonly #changes = new Changes();
  readonly #stopping = new AbortController();
  #thread: RenewThread | undefined;
  #graceOver = false;
  /**
   * A response was lost. Until this moment the server may have given claims to this worker that it does not know of: the old request may wait
   * on in the server, and get some after the next one was answered.
   */
  #resumeUntil = -Infinity;
  #isAway = false;

  constructor(kinds: Map<string, Kind>, options: SessionOptions) {
    this.#options = options;
    this.#kinds = kinds;
    this.#api = new ClaimsApi(new Connection(options), this.#worker, options.name);
    this.#reports = new PullReports(this.#api, this.#held);
    this.#renewer = new Renewer(this.#api, this.#held, options.warn);
  }

  stop(): void {
    this.#graceOver = this.#stopping.signal.aborted;
    this.#stopping.abort();
    this.#changes.notify();
  }

  async run(): Promise<void> {
    const { url, token, insecureHttp = false, renewInThread } = this.#options;
    if (renewInThread) this.#thread = platform.startRenewThread({ url, token, insecureHttp, worker: this.#worker });
    this.#renewer.start();
    try {
      await this.#pull();
    } finally {
      this.#stopping.abort();
      await this.#finish();
      this.#renewer.stop();
      this.#reports.close();
      this.#thread?.end();
    }
  }

  async #pull(): Promise<void> {
    const { signal } = this.#stopping;
    const backoff = new Backoff();
    while (!signal.aborted) {
      const slots = this.#freeSlots();
      if (slots <= 0) {
        await this.#changes.until(() => this.#freeSlots() > 0 || signal.aborted);
        continue;
      }
      if (this.#renewer.draining) {
        // The renewer learns when to go on.
        await sleep(DRAIN_POLL_MS, signal);
        continue;
      }
      try {
        await this.#poll(slots, this.#options.waitMs, (claim) => void this.#work(claim));
        backoff.reset();
        this.#isAway = false;
      } catch (error) {
        if (signal.aborted) return;
        if (!isTemporary(error)) throw error;
        if (!this.#isAway) this.#options.warn("the server does not answer; trying again", error);
        this.#isAway = true;
        await sleep(backoff.nextMs(error instanceof ApiError ? error.retryAfterMs : 0), signal);
      }
    }
  }

  /** A worker whose results do not get through takes no more jobs. */
  #freeSlots(): number {
    const { slots } = this.#options;
    return Math.min(slots - this.#running.size, Math.min(2 * slots, CLAIMS_MAX) - this.#held.size);
  }

  /** Asks for jobs once. For some time after a response that was lost, claims that it contained are returned first. */
  async #poll(slots: number, waitMs: number, begin: (claim: Claim) => void): Promise<void> {
    const started = now();
    const resume = this.#isAnswerLost();
    const held = resume ? [...this.#held.values()].map((claim) => claim.id) : [];
    const ask = { kinds: [...this.#kinds.keys()], slots, wait_ms: waitMs, resume, held };
    const received = await this.#api.claim(ask, waitMs > 0 ? this.#stopping.signal : undefined).catch((error: unknown) => {
      this.#resumeUntil = now() + waitMs + this.#renewer.leaseMs;
      throw error;
    });
    this.#renewer.draining = received.drain;
    const leaseMs = received.claims[0]?.claim.lease_ms ?? Infinity;
    // A response that came late, or waited in a stopped process, may hold claims that ended meanwhile.
    const isLate = now() - started > leaseMs / 2 || this.#renewer.pausedSince(started);
    const claims = received.claims.map((message) => this.#hold(message, isLate ? now() : started)).filter((claim) => claim !== undefined);
    if (claims.length > 0 && isLate) await this.#renewer.renewAdded();
    for (const claim of claims) {
      if (isLate && !claim.isRenewed && claim.lost === undefined) {
        // It is not known whether it is ours: a later request asks for it again.
        this.#resumeUntil = now() + leaseMs;
        this.#drop(claim);
      } else {
        begin(claim);
      }
    }
  }

  #isAnswerLost(): boolean {
    return now() < this.#resumeUntil;
  }

  /** Returns `undefined` for a claim that is already here. */
  #hold(message: ClaimMessage, askedAt: number): Claim | undefined {
    const claim = new Claim(message, askedAt);
    if (this.#held.has(claim.key)) return undefined;
    this.#held.set(claim.key, claim);
    this.#running.add(claim);
    this.#renewer.added(claim);
    this.#thread?.tell({ claimed: message });
    return claim;
  }

  async #work(claim: Claim): Promise<void> {
    const kind = this.#kinds.get(claim.message.kind);
    const reports = this.#reports.of(claim);
    const job = new Job(claim.message, { no: claim.id.no, timeoutMs: claim.timeoutMs }, claim.control.signal, reports);
    try {
      const unknown = { outcome: "released" } as const;
      const outcome = claim.lost || !kind ? unknown : await execute(kind, job, claim.message.input, claim.control);
      claim.finished = true;
      this.#free(claim);
      if (outcome === undefined || claim.lost !== undefined) throw claim.lost;
      await reports.flush();
      await this.#reports.settle(claim, outcome);
    } catch (error) {
      const what = error instanceof ClaimLost ? "no result was sent or recorded" : "its result was not recorded";
      this.#options.warn(`job ${claim.id.job}, claim ${claim.id.no}: ${what}`, error);
    } finally {
      this.#drop(claim);
    }
  }

  #free(claim: Claim): void {
    this.#running.delete(claim);
    this.#changes.notify();
  }

  #drop(claim: Claim): void {
    this.#held.delete(claim.key);
    this.#thread?.tell({ ended: claim.key });
    this.#free(claim);
  }

  /** Lets handlers finish, gives back the others, and leaves. */
  async #finish(): Promise<void> {
    try {
      if (this.#isAnswerLost() && this.#held.size > 0) await this.#giveBackLostPoll();
      await this.#changes.until(() => this.#running.size === 0 || this.#graceOver, this.#options.graceMs);
      for (const claim of this.#running) claim.control.abort(new ShuttingDown());
      await this.#changes.until(() => this.#held.size === 0, LAST_RESULTS_MS);
      await this.#api.leave();
    } catch (error) {
      this.#options.warn("the worker could not say that it leaves; its leases run out", error);
    }
  }

  /** The request that was interrupted may have claimed jobs. Other workers need not wait for the end of their leases. */
  async #giveBackLostPoll(): Promise<void> {
    try {
      await this.#poll(1, 0, (claim) => {
        claim.finished = true;
        this.#free(claim);
        const released = this.#reports.settle(claim, { outcome: "released" });
        void released.catch(() => {}).finally(() => this.#drop(claim));
      });
    } catch (error) {
      this.#options.warn("claims of an interrupted request were not given back", error);
    }
  }
}
