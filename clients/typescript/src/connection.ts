/** Requests to the server: one at a time, or repeated until a response arrives. */

import { ApiError, ConnectionError, isTemporary } from "./errors.js";
import { Backoff, now, sleep, startTimer } from "./time.js";

export interface ConnectionOptions {
  /** Where the server is, such as `http://127.0.0.1:7171`, with its base path if it has one. */
  url: string | URL;
  /** The token; a function is called for each request, for tokens that rotate. An open server on this machine needs none. */
  token?: string | (() => string | Promise<string>) | undefined;
  /** Send the token over http to another machine. Anyone on the way can read it. The default is false. */
  insecureHttp?: boolean | undefined;
  /** Sends the requests. The default is the platform's `fetch`. */
  fetch?: typeof fetch | undefined;
}

export interface Call {
  body?: unknown;
  headers?: Record<string, string>;
  /** How long to wait for the response. */
  timeoutMs?: number;
  signal?: AbortSignal | undefined;
}

export interface Reply {
  status: number;
  headers: Headers;
  body: unknown;
}

const TIMEOUT_MS = 35_000;

export class Connection {
  readonly #root: string;
  readonly #token: ConnectionOptions["token"];
  readonly #fetch: typeof fetch;

  /** `path` is the part of the URL that all requests share. */
  constructor(options: ConnectionOptions, path = "/api/v1") {
    const url = new URL(options.url);
    if (options.token !== undefined && !options.insecureHttp && !isPrivate(url)) {
      throw new TypeError("`url` must be https: the token would be readable on the network; `insecureHttp` allows it");
    }
    this.#root = url.href.replace(/\/+$/, "") + path;
    this.#token = options.token;
    // Browsers refuse `fetch` with another `this`.
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Sends one request. Throws `ApiError` if it is refused, and `ConnectionError` if there is no response. */
  async send(method: string, path: string, call: Call = {}): Promise<Reply> {
    const headers: Record<string, string> = { accept: "application/json", ...call.headers };
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    if (token !== undefined) headers.authorization = `Bearer ${token}`;
    const init: RequestInit = { method, headers, redirect: "error" };
    if (call.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(call.body);
    }
    const { status, headers: received, text } = await this.#exchange(this.#root + path, init, call);
    const body = parse(text);
    if (status < 300 && body !== NOT_JSON) return { status, headers: received, body };
    throw new ApiError(status, isObject(body) ? body : {}, retryAfterMs(received));
  }

  /** Repeats a request that is safe to repeat, for at most `forMs`, until the server decides. */
  async repeat(method: string, path: string, call: Call, forMs: number): Promise<Reply> {
    const backoff = new Backoff();
    const until = now() + forMs;
    for (;;) {
      try {
        return await this.send(method, path, call);
      } catch (error) {
        const wait = backoff.nextMs(error instanceof ApiError ? error.retryAfterMs : 0);
        if (!isTemporary(error) || call.signal?.aborted || now() + wait > until) throw error;
        await sleep(wait, call.signal);
        call.signal?.throwIfAborted();
      }
    }
  }

  async #exchange(url: string, init: RequestInit, call: Call) {
    call.signal?.throwIfAborted();
    const timeoutMs = call.timeoutMs ?? TIMEOUT_MS;
    const control = new AbortController();
    const abort = () => control.abort();
    const timer = startTimer(timeoutMs, abort);
    call.signal?.addEventListener("abort", abort);
    try {
      const response = await this.#fetch(url, { ...init, signal: control.signal });
      return { status: response.status, headers: response.headers, text: await response.text() };
    } catch (error) {
      call.signal?.throwIfAborted();
      const why = control.signal.aborted ? `no response within ${timeoutMs} ms` : reason(error);
      throw new ConnectionError(`${init.method} ${url}: ${why}`, { cause: error });
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", abort);
    }
  }
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

const isPrivate = (url: URL): boolean => url.protocol === "https:" || LOOPBACK.test(url.hostname);

const NOT_JSON = Symbol("not JSON");

function parse(text: string): unknown {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return NOT_JSON;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function retryAfterMs(headers: Headers): number {
  const seconds = Number(headers.get("retry-after") ?? 0);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0;
}

/** `fetch` says only "fetch failed"; the cause says why. */
function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
