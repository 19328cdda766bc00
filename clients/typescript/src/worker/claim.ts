/** A claim: the right of this worker to run a job, until its lease ends. */

import { now } from "../time.js";
import type { ClaimId, ClaimMessage } from "./claims-api.js";
import type { JobMessage } from "./job.js";
import { CancelRequested, ClaimLost } from "./verdicts.js";

/** A report is sent this often however late it is: the first connection after a pause may be dead. */
const TRIES_MIN = 3;
/** How long reports are kept after the end of the lease. A server that was away takes them if it has not given the job to another worker. */
export const KEPT_MS = 600_000;

export class Claim {
  readonly message: JobMessage;
  readonly id: ClaimId;
  readonly timeoutMs: number;
  /** Aborted when the handler must stop. */
  readonly control = new AbortController();
  /** Why the claim is lost; `undefined` while it is not. */
  lost: ClaimLost | undefined;
  /** The handler has ended, and its result is on the way. */
  finished = false;
  leaseMs: number;
  leaseEnds: number;
  /** The lease was renewed. */
  isRenewed = false;

  /** The lease began at the moment of the request for it, or later. */
  constructor(received: ClaimMessage, askedAt = now()) {
    this.message = received.job;
    this.id = { job: received.job.id, no: received.claim.no };
    this.timeoutMs = received.claim.timeout_ms;
    this.leaseMs = received.claim.lease_ms;
    this.leaseEnds = askedAt + received.claim.lease_ms;
  }

  get key(): string {
    return keyOf(this.id);
  }

  /** The lease counts from the moment at which its renewal was sent: it may be longer, and never shorter. */
  renewed(sentAt: number, leaseMs: number): void {
    this.isRenewed = true;
    this.leaseMs = leaseMs;
    this.leaseEnds = Math.max(this.leaseEnds, sentAt + leaseMs);
  }

  cancel(): void {
    this.control.abort(new CancelRequested());
  }

  lose(why: string): ClaimLost {
    this.lost ??= new ClaimLost(why);
    this.control.abort(this.lost);
    return this.lost;
  }

  /** Returns why a report need not be sent any more. */
  checkLate(tries: number): ClaimLost | undefined {
    const late = tries >= TRIES_MIN && now() > this.leaseEnds + KEPT_MS;
    return late ? this.lose("the server could not be reached in time") : this.lost;
  }
}

export const keyOf = (id: ClaimId): string => `${id.job}/${id.no}`;
