// Graphile Worker: https://worker.graphile.org
//
// It deletes completed jobs. Its own benchmark (perfTest) runs several processes with a local queue, and batches completions.
import { readFileSync } from "node:fs";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";

import { INPUT } from "./harness.mjs";

const TASK = "mail.send";
/** A connection for each of sixteen callers. */
const CONNECTIONS = 20;
const PROCESSES = 2;
const WIDE = {
  concurrentJobs: 24,
  maxPoolSize: 26,
  localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

export default class GraphileWorker {
  static version() {
    const file = new URL("./node_modules/graphile-worker/package.json", import.meta.url);
    return `${JSON.parse(readFileSync(file, "utf8")).version}, Node ${process.versions.node}`;
  }

  static describe({ best }) {
    const { callers, batch } = GraphileWorker.bulk({ best });
    const worker = best
      ? `${PROCESSES} processes, \`concurrentJobs\` ${WIDE.concurrentJobs}, \`localQueue\` of ${WIDE.localQueue.size} with a ` +
        "`refetchDelay` of 10 ms, `completeJobBatchDelay` 0; latency: one process without a local queue"
      : "one process, the defaults of `run`";
    return `${worker}; bulk: \`addJobs\` with ${batch} jobs, ${callers} at a time`;
  }

  static bulk({ best }) {
    return { callers: best ? 4 : 1, batch: 1_000 };
  }

  static processes({ best }) {
    return best ? PROCESSES : 0;
  }

  constructor(request) {
    this.request = request;
  }

  async connect() {
    const max = this.request.best ? CONNECTIONS : 10;
    this.pool = new pg.Pool({ connectionString: this.request.url, max });
    // It has no tables yet.
    if (this.request.verb !== "setup") this.utils = await makeWorkerUtils({ pgPool: this.pool, logger: quiet });
  }

  setup() {
    return runMigrations({ pgPool: this.pool, logger: quiet });
  }

  enqueue() {
    return this.utils.addJob(TASK, INPUT);
  }

  enqueueMany(jobs) {
    return this.utils.addJobs(Array.from({ length: jobs }, () => ({ identifier: TASK, payload: INPUT })));
  }

  async start(begin) {
    const { best, url, verb } = this.request;
    const worker = !best ? {} : verb === "latency" ? { concurrentJobs: WIDE.concurrentJobs, maxPoolSize: 26 } : WIDE;
    const preset = { worker: { connectionString: url, ...worker } };
    const taskList = { [TASK]: async () => begin() };
    this.runner = await run({ preset, taskList, parsedCronItems: [], logger: quiet, noHandleSignals: true });
    // A failure is shown when it happens; stopping early is none.
    this.runner.promise.catch(() => {});
  }

  async stop() {
    await this.runner?.stop();
  }

  async left() {
    const { rows } = await this.pool.query("select count(*)::int as left from graphile_worker._private_jobs");
    return rows[0].left;
  }

  async close() {
    await this.utils?.release();
    await this.pool.end();
  }
}
