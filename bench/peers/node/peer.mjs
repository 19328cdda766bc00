// Measures a job queue of Node: peer.mjs graphile-worker|pg-boss VERB OPTION…, as bench/peers/harness describes it.
import { parse, run } from "./harness.mjs";

const [name, ...words] = process.argv.slice(2);
const { default: Queue } = await import(`./${name === "pg-boss" ? "pg-boss" : "graphile-worker"}.mjs`);
await run(Queue, name, parse(words));
// What still runs does not count any more.
process.exit(0);
