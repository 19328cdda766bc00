/** A worker: the kinds that it runs, and the loop that pulls jobs of these kinds from the server. */

import type { ConnectionOptions } from "../connection.js";
import { platform } from "../platform.js";
import type { Handler, Kind, KindOptions } from "./kinds.js";
import { PullSession, type SessionOptions } from "./pull-session.js";

export interface WorkerOptions extends ConnectionOptions {
  /** The token, with the scope `worker`. A function is called once, when the worker starts: claims belong to the token. */
  token?: ConnectionOptions["token"];
  /** How many jobs run at once, 1 to 1,000. The default is 10. */
  slots?: number | undefined;
  /** The name that people see. The default is the name of the machine. */
  name?: string | undefined;
  /** How long running handlers may continue after the worker was told to stop. The default is 30 seconds. */
  graceMs?: number | undefined;
  /** How long one request waits for jobs, from a second to a minute. The default is 25 seconds. */
  waitMs?: number | undefined;
  /** Renew leases in a thread as well, for handlers that block the event loop. In Node only. The default is false. */
  renewInThread?: boolean | undefined;
  /** Whether `run` stops on SIGTERM and SIGINT. The default is true. */
  handleSignals?: boolean | undefined;
  /** Learns of failed requests, which are repeated, and of lost claims. The default is `console.warn`. */
  onWarning?: ((message: string, error?: unknown) => void) | undefined;
}

const SLOTS = 10;
const SLOTS_MAX = 1_000;
const GRACE_MS = 30_000;
const WAIT_MS = 25_000;
const WAIT_MS_MIN = 1_000;
const WAIT_MS_MAX = 60_000;

export class Worker {
  readonly slots: number;
  readonly #options: WorkerOptions;
  readonly #kinds = new Map<string, Kind>();
  #session: PullSession | undefined;
  #isRunning = false;

  constructor(options: WorkerOptions) {
    const { slots = SLOTS, waitMs = WAIT_MS } = options;
    if (!Number.isInteger(slots) || slots < 1 || slots > SLOTS_MAX) throw new RangeError(`\`slots\` must be 1 to ${SLOTS_MAX}`);
    if (!(waitMs >= WAIT_MS_MIN && waitMs <= WAIT_MS_MAX)) throw new RangeError(`\`waitMs\` must be ${WAIT_MS_MIN} to ${WAIT_MS_MAX}`);
    this.slots = slots;
    this.#options = options;
  }

  /** Registers the handler of a kind. */
  kind<Input = unknown, Output = unknown>(name: string, handler: Handler<Input, Output>, options: KindOptions<Input> = {}): this {
    if (this.#kinds.has(name)) throw new Error(`the kind \`${name}\` has a handler already`);
    this.#kinds.set(name, { name, handler: handler as Handler<unknown, unknown>, parse: options.parse });
    return this;
  }

  /** @internal */
  find(kind: string): Kind | undefined {
    return this.#kinds.get(kind);
  }

  /**
   * Pulls and runs jobs until `stop` is called, or the process gets SIGTERM or SIGINT. Then it takes no more jobs, lets
   * handlers finish, and returns. Throws if the server refuses the worker: a wrong token, or a kind that is not for it.
   */
  async run(): Promise<void> {
    if (this.#isRunning) throw new Error("the worker runs already");
    if (this.#kinds.size === 0) throw new Error("the worker has no kinds: call `kind` first");
    this.#isRunning = true;
    let unsubscribe = () => {};
    try {
      const session = new PullSession(this.#kinds, await this.#sessionOptions());
      this.#session = session;
      if (this.#options.handleSignals !== false) unsubscribe = platform.onStopSignal(() => session.stop());
      await session.run();
    } finally {
      unsubscribe();
      this.#session = undefined;
      this.#isRunning = false;
    }
  }

  async #sessionOptions(): Promise<SessionOptions> {
    const { url, token, insecureHttp, fetch, name, graceMs, waitMs, renewInThread, onWarning } = this.#options;
    return {
      url: String(url),
      token: typeof token === "function" ? await token() : token,
      insecureHttp,
      fetch,
      slots: this.slots,
      name: name ?? platform.host,
      graceMs: graceMs ?? GRACE_MS,
      waitMs: waitMs ?? WAIT_MS,
      renewInThread: renewInThread === true,
      warn: onWarning ?? warnOnConsole,
    };
  }

  /** Stops gracefully; `run` returns when all is done. A second call ends the grace period. */
  stop(): void {
    this.#session?.stop();
  }
}

function warnOnConsole(message: string, error?: unknown): void {
  console.warn(`lineclear: ${message}`, error ?? "");
}
