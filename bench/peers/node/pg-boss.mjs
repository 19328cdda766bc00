// pg-boss: https://pgboss.io
//
// It keeps completed jobs for days. By default a worker asks for one job every two seconds; for many short jobs its documentation names
// large batches that are fetched without a pause while they are full, and several workers.
import { readFileSync } from "node:fs";
import { PgBoss } from "pg-boss";

import { INPUT } from "./harness.mjs";

const QUEUE = "mail.send";
/** A connection for each of sixteen callers. */
const CONNECTIONS = 20;
const WIDE = { batchSize: 1_000, burstWhenBatchFull: true, localConcurrency: 2, pollingIntervalSeconds: 0.5 };

export default class Boss {
  static version() {
    const file = new URL("./node_modules/pg-boss/package.json", import.meta.url);
    return `${JSON.parse(readFileSync(file, "utf8")).version}, Node ${process.versions.node}`;
  }

  static describe({ best }) {
    const { callers, batch } = Boss.bulk({ best });
    const worker = best
      ? `\`batchSize\` ${WIDE.batchSize}, \`burstWhenBatchFull\`, \`localConcurrency\` ${WIDE.localConcurrency}, polling every 0.5 s, \`notify\`; latency: ` +
        "one job per fetch"
      : "the defaults of `work`: one job every 2 s";
    return `${worker}; bulk: \`insert\` with ${batch} jobs, ${callers} at a time`;
  }

  static bulk({ best }) {
    return { callers: best ? 4 : 1, batch: 1_000 };
  }

  static processes() {
    return 0;
  }

  constructor(request) {
    this.request = request;
  }

  async connect() {
    const { best, url, verb } = this.request;
    const works = ["drain", "end", "latency"].includes(verb);
    this.boss = new PgBoss({
      connectionString: url,
      ...(best ? { max: CONNECTIONS } : {}),
      useListenNotify: best && works,
      // Programs that only enqueue need neither.
      supervise: works,
      schedule: works,
      migrate: verb === "setup",
    });
    this.boss.on("error", (error) => console.error(error));
    await this.boss.start();
  }

  async setup() {
    await this.boss.createQueue(QUEUE);
  }

  enqueue() {
    return this.boss.send(QUEUE, INPUT);
  }

  enqueueMany(jobs) {
    return this.boss.insert(QUEUE, Array.from({ length: jobs }, () => ({ data: INPUT })));
  }

  async start(begin) {
    const { best, verb } = this.request;
    // Enqueueing notifies only where it is of use: for the latency.
    const options = !best ? {} : verb === "latency" ? { batchSize: 1 } : WIDE;
    if (best && verb !== "drain") await this.boss.updateQueue(QUEUE, { notify: true });
    await this.boss.work(QUEUE, options, async (jobs) => jobs.forEach(() => begin()));
  }

  stop() {
    return this.boss.stop({ graceful: true, timeout: 2_000 });
  }

  async left() {
    const text = "select count(*)::int as left from pgboss.job where state <> 'completed'";
    const { rows } = await this.boss.getDb().executeSql(text, []);
    return rows[0].left;
  }

  async close() {
    // It may have been stopped with its workers.
    await this.boss.stop({ graceful: false }).catch(() => {});
  }
}
