/** The tests of one file, in one process: most of them wait, and they share one server. */

import { after, before, describe } from "node:test";

import { declareKinds } from "./declare-kinds.js";
import { Server } from "./server.js";
import { FIXTURE_KINDS } from "./workers.js";

export interface SuiteOptions {
  /** How many tests run at once. */
  concurrency: number;
  /** Arguments of the server. */
  server?: string[];
}

const TIMEOUT_MS = 200_000;

/** Starts a server, and passes a function that returns it to `tests`. */
export function suite(name: string, options: SuiteOptions, tests: (server: () => Server) => void): void {
  describe(name, { concurrency: options.concurrency, timeout: TIMEOUT_MS }, () => {
    let server: Server;
    before(async () => {
      server = await Server.start(options.server);
      await declareKinds(server.url, FIXTURE_KINDS);
    });
    after(() => server.end());
    tests(() => server);
  });
}
