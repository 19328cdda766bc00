// What bench/peers/harness is for Rust: the command line, the clock and the answer, for job queues of Node.
//
// A queue is a class with the static functions version(), describe(request), bulk(request) and processes(request), and the functions
// connect(), setup(), enqueue(), enqueueMany(jobs), start(begin), stop(), left() and close(). Each handler calls `begin` and does nothing else.
import { fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

/** The input of all jobs. */
export const INPUT = { to: "ops" };

/** How often it looks whether all handlers began, and then whether the database knows. */
const LOOK_MS = 1;
/** Between two jobs of the latency. */
const PAUSE_MS = 20;
/** The first jobs of the latency open connections and prepare statements, and do not count; of a slow queue, those in this part of the time. */
const WARM_UP = 5;
const WARM_UP_PART = 4;
/** A stop that takes longer is left to the end of the process. */
const STOP_MS = 5_000;
const FILL = { callers: 4, batch: 1_000 };

const now = () => performance.now() / 1_000;

/** Reads the arguments that follow the queue's name. */
export function parse([verb, ...words]) {
  const request = { verb, url: "", best: false, jobs: Infinity, seconds: 60, callers: 1 };
  const names = { "--url": "url", "--jobs": "jobs", "--seconds": "seconds", "--callers": "callers" };
  while (words.length > 0) {
    const word = words.shift();
    if (word === "--best" || word === "--default") {
      request.best = word === "--best";
    } else if (word in names && words.length > 0) {
      const value = words.shift();
      request[names[word]] = word === "--url" ? value : Number(value);
    } else {
      throw new Error(`${word} is not an option, or needs a value`);
    }
  }
  return request;
}

/** Does what the command line asks for, and prints the answer. */
export async function run(Queue, name, request) {
  if (request.verb === "describe") {
    console.log(JSON.stringify({ version: Queue.version(), settings: Queue.describe(request) }));
    return;
  }
  const queue = new Queue(request);
  await queue.connect();
  if (request.verb === "worker") {
    await work(queue);
    return;
  }
  const verbs = { setup, fill, drain, end, single, bulk, latency };
  if (!(request.verb in verbs)) throw new Error(`${request.verb} is not a verb`);
  const answer = await verbs[request.verb]({ Queue, name, queue, request });
  console.log(JSON.stringify({ enqueued: 0, jobs: 0, ran: 0, seconds: 0, times_ms: [], ...answer }));
  await queue.close();
}

async function setup({ queue }) {
  await queue.setup();
}

async function fill({ queue, request }) {
  const begun = now();
  const enqueued = await produce(queue, FILL, request.jobs, Infinity);
  return { enqueued, jobs: enqueued, seconds: now() - begun };
}

async function drain({ Queue, name, queue, request }) {
  const workers = await Workers.ready(Queue, name, queue, request);
  const begun = now();
  await workers.start();
  const left = await untilAcknowledged(queue, workers, request.jobs, begun, request.seconds);
  const seconds = now() - begun;
  await workers.stop();
  return { jobs: request.jobs - left, ran: workers.begun, seconds };
}

async function end({ Queue, name, queue, request }) {
  const workers = await Workers.ready(Queue, name, queue, request);
  const begun = now();
  await workers.start();
  const enqueued = await produce(queue, Queue.bulk(request), request.jobs, request.seconds);
  // A slow queue gets as long again for what it has accepted.
  const left = await untilAcknowledged(queue, workers, enqueued, begun, request.seconds * 2);
  const seconds = now() - begun;
  await workers.stop();
  return { enqueued, jobs: enqueued - left, ran: workers.begun, seconds };
}

/** Waits until the database knows all jobs as completed, or the time is over; returns how many are left. */
async function untilAcknowledged(queue, workers, jobs, begun, seconds) {
  // The database is not asked while handlers run: that would be part of the measurement.
  while (workers.begun < jobs && now() - begun < seconds) await sleep(LOOK_MS);
  for (;;) {
    const left = await queue.left();
    if (left === 0 || now() - begun >= seconds) return left;
    await sleep(LOOK_MS);
  }
}

function single(context) {
  return enqueue(context, { callers: context.request.callers, batch: 1 });
}

function bulk(context) {
  return enqueue(context, context.Queue.bulk(context.request));
}

async function enqueue({ queue, request }, how) {
  // Opens connections and prepares statements.
  const before = await produce(queue, how, how.callers * how.batch, Infinity);
  const begun = now();
  const jobs = await produce(queue, how, request.jobs, request.seconds);
  return { enqueued: before + jobs, jobs, seconds: now() - begun };
}

/** Enqueues until there are enough jobs or the time is over; returns how many. */
async function produce(queue, { callers, batch }, jobs, seconds) {
  const begun = now();
  let left = jobs;
  let enqueued = 0;
  const call = async () => {
    while (left > 0 && now() - begun < seconds) {
      const next = Math.min(left, batch);
      left -= next;
      await (batch === 1 ? queue.enqueue() : queue.enqueueMany(next));
      enqueued += next;
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
  return enqueued;
}

async function latency({ queue, request }) {
  let started;
  let ran = 0;
  await queue.start(() => {
    ran += 1;
    started(now());
  });
  const times = [];
  let enqueued = 0;
  const begun = now();
  let warmUp = 0;
  while (times.length < request.jobs && now() - begun < request.seconds) {
    const isWarm = warmUp === WARM_UP || now() - begun >= request.seconds / WARM_UP_PART;
    const start = new Promise((resolve) => (started = resolve));
    const called = now();
    await queue.enqueue();
    enqueued += 1;
    // The next job is enqueued only when this one has begun: a queue that looks seldom would not be idle otherwise.
    const at = await start;
    if (isWarm) times.push(Math.max(0, (at - called) * 1_000));
    else warmUp += 1;
    await sleep(Math.max(0, PAUSE_MS - (now() - called) * 1_000));
  }
  const seconds = now() - begun;
  if (times.length === 0) throw new Error(`no job began within ${request.seconds} s`);
  const counted = { get begun() { return ran; } };
  const left = await untilAcknowledged(queue, counted, enqueued, now(), request.seconds);
  await soon(queue.stop());
  return { enqueued, jobs: enqueued - left, ran, seconds, times_ms: times };
}

/** Workers in this process, or in others that have started before the clock runs. */
class Workers {
  begun = 0;

  static async ready(Queue, name, queue, request) {
    const workers = new Workers();
    workers.queue = queue;
    workers.children = Array.from({ length: Queue.processes(request) }, () => {
      const options = ["worker", "--url", request.url, request.best ? "--best" : "--default"];
      const child = fork(process.argv[1], [name, ...options]);
      child.ended = new Promise((resolve) => child.once("exit", resolve));
      child.begun = 0;
      return child;
    });
    const messages = workers.children.map((child) => new Promise((resolve) => child.once("message", resolve)));
    await Promise.all(messages);
    for (const child of workers.children) {
      child.on("message", ({ begun }) => {
        workers.begun += begun - child.begun;
        child.begun = begun;
      });
    }
    return workers;
  }

  async start() {
    if (this.children.length === 0) await this.queue.start(() => (this.begun += 1));
    for (const child of this.children) child.send("start");
  }

  async stop() {
    if (this.children.length === 0) return soon(this.queue.stop());
    for (const child of this.children) child.send("stop");
    await soon(Promise.all(this.children.map((child) => child.ended)));
    for (const child of this.children) child.kill("SIGKILL");
    await Promise.all(this.children.map((child) => child.ended));
  }
}

/** A worker of its own: starts and stops when it is told to, and says how many handlers began. */
async function work(queue) {
  let begun = 0;
  let told = 0;
  const tell = (sent) => {
    if (begun !== told) process.send({ begun: (told = begun) }, sent);
    else sent?.();
  };
  const toldTo = (word) => new Promise((resolve) => process.on("message", (message) => message === word && resolve()));
  const [start, stop] = [toldTo("start"), toldTo("stop")];
  process.send("ready");
  await start;
  setInterval(() => tell(), LOOK_MS).unref();
  await queue.start(() => (begun += 1));
  await stop;
  await queue.stop();
  await new Promise(tell);
  await queue.close();
}

function soon(promise) {
  return Promise.race([promise, sleep(STOP_MS)]);
}
