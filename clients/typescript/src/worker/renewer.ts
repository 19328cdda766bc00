/** Renews the leases of all claims on its own timer, and notices when a lease could not be renewed in time. */

import { now, type Timer } from "../time.js";
import { type Claim, keyOf } from "./claim.js";
import { CLAIMS_MAX, type ClaimsApi, type Renewal } from "./claims-api.js";

/** A lease is renewed after a third of it. The timer runs more often, so that a failed renewal is repeated soon. */
const RENEWALS_PER_LEASE = 3;
const TICKS_PER_LEASE = 12;
/** Until the first claim says how long leases are. */
const LEASE_MS = 30_000;

export class Renewer {
  /** The server asked to take no more jobs. */
  draining = false;
  readonly #api: ClaimsApi;
  readonly #held: Map<string, Claim>;
  readonly #warn: (message: string, error?: unknown) => void;
  #leaseMs = LEASE_MS;
  #renewAt = 0;
  #underWay: Promise<void> | undefined;
  #timer: Timer | undefined;
  #stopped = false;
  #lastTick = now();
  #lastPauseEnd = -Infinity;

  constructor(api: ClaimsApi, held: Map<string, Claim>, warn: (message: string, error?: unknown) => void) {
    this.#api = api;
    this.#held = held;
    this.#warn = warn;
  }

  start(): void {
    clearTimeout(this.#timer);
    // A renewal that was under way may end after the worker.
    if (this.#stopped) return;
    this.#timer = setTimeout(() => this.#tick(), this.#leaseMs / TICKS_PER_LEASE);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** How long leases are. */
  get leaseMs(): number {
    return this.#leaseMs;
  }

  /** Tells the renewer that a claim was added. */
  added(claim: Claim): void {
    if (this.#held.size === 1) this.#renewAt = now() + claim.leaseMs / RENEWALS_PER_LEASE;
    this.#pace(claim.leaseMs);
  }

  /** Whether the process was stopped, or its event loop blocked, for so long that a lease may have ended unnoticed. */
  pausedSince(moment: number): boolean {
    this.#notePause();
    return this.#lastPauseEnd >= moment;
  }

  /** Renews all claims, also those that were added while others are renewed. */
  async renewAdded(): Promise<void> {
    await this.#underWay;
    await this.renew();
  }

  /** Renews all claims now. */
  renew(): Promise<void> {
    this.#underWay ??= this.#renewAll().finally(() => (this.#underWay = undefined));
    return this.#underWay;
  }

  #pace(leaseMs: number): void {
    const shorter = leaseMs < this.#leaseMs;
    this.#leaseMs = leaseMs;
    if (!shorter) return;
    this.#renewAt = Math.min(this.#renewAt, now() + leaseMs / RENEWALS_PER_LEASE);
    this.start();
  }

  #tick(): void {
    this.#notePause();
    // A process that was stopped asks the server first: its machine may have been stopped as a whole.
    const trusted = now() - this.#lastPauseEnd < this.#leaseMs / RENEWALS_PER_LEASE;
    for (const claim of this.#held.values()) {
      const over = !claim.finished && !trusted && now() > claim.leaseEnds;
      if (over) claim.lose("the lease could not be renewed in time");
    }
    // Without claims, only to learn whether the worker still drains.
    if ((this.#held.size > 0 || this.draining) && now() >= this.#renewAt) void this.renew();
    this.start();
  }

  #notePause(): void {
    if (now() - this.#lastTick > this.#leaseMs / 2) this.#lastPauseEnd = now();
    this.#lastTick = now();
  }

  async #renewAll(): Promise<void> {
    const claims = [...this.#held.values()].filter((claim) => claim.lost === undefined);
    try {
      let all = true;
      let from = 0;
      do {
        all = (await this.#renewSome(claims.slice(from, from + CLAIMS_MAX))) && all;
        from += CLAIMS_MAX;
      } while (from < claims.length);
      this.#renewAt = now() + this.#leaseMs / (all ? RENEWALS_PER_LEASE : TICKS_PER_LEASE);
    } catch (error) {
      // `#renewAt` is over: the next tick tries again.
      this.#warn("leases could not be renewed; trying again", error);
    }
  }

  /** Returns whether the server looked at all of them. */
  async #renewSome(claims: Claim[]): Promise<boolean> {
    const sentAt = now();
    const reply = await this.#api.renew(claims.map((claim) => claim.id), this.#leaseMs / RENEWALS_PER_LEASE);
    this.draining = reply.drain === true;
    if (reply.lease_ms > 0) this.#pace(reply.lease_ms);
    const renewals = new Map<string, Renewal>(reply.claims.map((renewal) => [keyOf(renewal), renewal]));
    for (const claim of claims) {
      const renewal = renewals.get(claim.key);
      if (renewal?.status === "renewed") claim.renewed(sentAt, this.#leaseMs);
      // A result on its way may have arrived before this request: the answer to the result decides.
      if (renewal?.status === "stale_claim" && !claim.finished) claim.lose("another worker may have the job");
      if (renewal?.cancel && !claim.finished) claim.cancel();
    }
    return !reply.claims.some((renewal) => renewal.status === "skipped");
  }
}
