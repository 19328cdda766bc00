/** The endpoint of a push worker: the server sends jobs to it. */

import { Changes } from "../changes.js";
import type { ConnectionOptions } from "../connection.js";
import { Claim } from "../worker/claim.js";
import { ClaimReports } from "../worker/claim-reports.js";
import { execute } from "../worker/execute.js";
import { Job, type JobMessage, type Reports } from "../worker/job.js";
import type { Kind } from "../worker/kinds.js";
import type { Worker } from "../worker/worker.js";
import { readBody } from "./body.js";
import { Callback } from "./callback.js";
import { Replies } from "./replies.js";
import { Verifier } from "./signature.js";

export interface PushOptions {
  /** The secrets that the server may sign with (`whsec_…`). Give the old and the new one while they change. */
  secrets: string[];
  /** How far the clock of the server may be off. Older requests are refused. The default is 5 minutes. */
  windowMs?: number | undefined;
  /**
   * Answer 202 at once and report the result later, for jobs that take longer than a request may. The server must know its
   * public URL, to which the reports go. The default is false: the answer is the result.
   */
  accept?: boolean | undefined;
  /** Sends the callbacks. The default is the platform's `fetch`. */
  fetch?: ConnectionOptions["fetch"];
  /** Learns of results that were not recorded. The default is `console.warn`. */
  onWarning?: ((message: string, error?: unknown) => void) | undefined;
}

export interface PushHandler {
  (request: Request): Promise<Response>;
  /** Takes no more jobs, and waits for the end of those that run. */
  close(): Promise<void>;
}

interface PushMessage {
  version: number;
  job: JobMessage;
  claim: { no: number; lease_ms: number; timeout_ms: number; token: string | null };
  callback: string | null;
}

interface Reply {
  status: number;
  body: string;
}

const WINDOW_MS = 300_000;
/** An input has at most 256 KiB. */
const BODY_BYTES_MAX = 1_024 * 1_024;

/** Serves the kinds of a worker as an HTTP endpoint, for any server that speaks in `Request` and `Response`. */
export function pushHandler(worker: Worker, options: PushOptions): PushHandler {
  const endpoint = new Endpoint(worker, options);
  return Object.assign((request: Request) => endpoint.answer(request), { close: () => endpoint.close() });
}

class Endpoint {
  readonly #worker: Worker;
  readonly #options: PushOptions;
  readonly #verifier: Verifier;
  readonly #replies: Replies<Reply>;
  readonly #changes = new Changes();
  #running = 0;
  #closing = false;

  constructor(worker: Worker, options: PushOptions) {
    const windowMs = options.windowMs ?? WINDOW_MS;
    this.#worker = worker;
    this.#options = options;
    this.#verifier = new Verifier(options.secrets, windowMs);
    // A request can be repeated from one end of the window to the other.
    this.#replies = new Replies(2 * windowMs);
  }

  async close(): Promise<void> {
    this.#closing = true;
    await this.#changes.until(() => this.#running === 0);
  }

  async answer(request: Request): Promise<Response> {
    const { status, body } = await this.#reply(request);
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (status === 429 || status === 503) headers["retry-after"] = "1";
    return new Response(body, { status, headers });
  }

  async #reply(request: Request): Promise<Reply> {
    if (request.method !== "POST") return problem(405, "only POST is allowed");
    const body = await readBody(request, BODY_BYTES_MAX);
    if (body === undefined) return problem(413, `the body must not exceed ${BODY_BYTES_MAX} bytes`);
    const refusal = await this.#verifier.refusal(request.headers, body);
    if (refusal !== undefined) return problem(401, refusal);
    const id = request.headers.get("webhook-id")!;
    const earlier = this.#replies.get(id);
    if (earlier !== undefined) return earlier;
    const reply = this.#run(body, request.signal);
    // Only what ran is kept: the server repeats the others.
    this.#replies.add(id, reply, ({ status, body }) => (status < 300 ? body.length : undefined));
    return reply;
  }

  async #run(body: Uint8Array, disconnected: AbortSignal): Promise<Reply> {
    const message = parse(body);
    if (message === undefined) return problem(400, "the body must be a push request in JSON");
    if (message.version !== 1) return problem(503, `this worker does not know version ${message.version}; upgrade it`);
    const kind = this.#worker.find(message.job.kind);
    if (kind === undefined) return problem(404, `this worker has no handler for the kind \`${message.job.kind}\``);
    if (this.#closing) return problem(503, "the worker stops");
    // An event that has happened is not told again: the handler would never learn that its claim is lost.
    if (disconnected.aborted) return problem(503, "the connection was closed");
    if (this.#running >= this.#worker.slots) return problem(429, "all slots are busy");
    const { callback, claim: { token } } = message;
    const back = callback && token ? new Callback(callback, token, this.#options.fetch) : undefined;
    this.#running += 1;
    if (this.#options.accept && back !== undefined) {
      void this.#executeLater(kind, message, back);
      return { status: 202, body: "{}" };
    }
    return this.#executeNow(kind, message, back, disconnected);
  }

  async #executeNow(kind: Kind, message: PushMessage, back: Callback | undefined, disconnected: AbortSignal): Promise<Reply> {
    const claim = new Claim(message);
    const lose = () => claim.lose("the server closed the connection");
    disconnected.addEventListener("abort", lose);
    try {
      const reports = back && new ClaimReports(claim, back);
      const outcome = await execute(kind, job(message, claim, reports), message.job.input, claim.control);
      await reports?.flush();
      return outcome === undefined ? problem(503, "the connection was closed") : { status: 200, body: JSON.stringify(outcome) };
    } finally {
      disconnected.removeEventListener("abort", lose);
      this.#ended();
    }
  }

  async #executeLater(kind: Kind, message: PushMessage, back: Callback): Promise<void> {
    const claim = new Claim(message);
    const ended = new AbortController();
    void back.renew(claim, ended.signal);
    try {
      const reports = new ClaimReports(claim, back);
      const outcome = await execute(kind, job(message, claim, reports), message.job.input, claim.control);
      if (outcome === undefined || claim.lost !== undefined) throw claim.lost;
      claim.finished = true;
      await reports.flush();
      await back.settle(claim, outcome);
    } catch (error) {
      const warn = this.#options.onWarning ?? ((text: string, error?: unknown) => console.warn(`lineclear: ${text}`, error));
      warn(`job ${claim.id.job}, claim ${claim.id.no}: its result was not recorded`, error);
    } finally {
      ended.abort();
      this.#ended();
    }
  }

  #ended(): void {
    this.#running -= 1;
    this.#changes.notify();
  }
}

function job(message: PushMessage, claim: Claim, reports: Reports = NOWHERE): Job {
  return new Job(message.job, { no: claim.id.no, timeoutMs: claim.timeoutMs }, claim.control.signal, reports);
}

/** The reports of a job whose server did not say where to send them. */
const NOWHERE: Reports = {
  log: () => {},
  progress: () => {},
  readStep: () => Promise.resolve({ found: false }),
  recordStep: () => Promise.resolve(),
};

const problem = (status: number, detail: string): Reply => ({ status, body: JSON.stringify({ status, detail }) });

function parse(body: Uint8Array): PushMessage | undefined {
  try {
    const message = JSON.parse(new TextDecoder().decode(body)) as PushMessage;
    return typeof message.version === "number" && (message.version !== 1 || (message.job?.id && message.claim?.no)) ? message : undefined;
  } catch {
    return undefined;
  }
}
