/** What the thread that renews leases is told. */

import type { ClaimMessage } from "./claims-api.js";

export interface RenewThreadData {
  url: string;
  token: string | undefined;
  insecureHttp: boolean;
  worker: string;
}

/** A claim that the worker has from now on, or the key of one that has ended. */
export type RenewThreadMessage = { claimed: ClaimMessage } | { ended: string };

export interface RenewThread {
  tell(message: RenewThreadMessage): void;
  end(): void;
}
