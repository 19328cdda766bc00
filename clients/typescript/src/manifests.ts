/** Manifests: standing orders with a schedule. */

import { camelCase } from "./camel-case.js";
import type { Call } from "./connection.js";
import { ApiError } from "./errors.js";
import { randomUuid } from "./platform.js";
import { query } from "./query.js";
import type { Manifest, ManifestState, Page } from "./types.js";

export interface RunManifestOptions {
  /** An input for this run, instead of the manifest's. */
  input?: unknown;
  dueAt?: Date | string | undefined;
  delayMs?: number | undefined;
  idempotencyKey?: string | undefined;
}

type Send = (method: string, path: string, call?: Call) => Promise<unknown>;

export class Manifests {
  readonly #send: Send;

  /** @internal */
  constructor(send: Send) {
    this.#send = send;
  }

  /** A page of the manifests, by key. */
  async list(options: { limit?: number; cursor?: string } = {}): Promise<Page<ManifestState>> {
    return camelCase(await this.#send("GET", `/manifests${query(options)}`));
  }

  async get(key: string): Promise<ManifestState> {
    return camelCase(await this.#send("GET", path(key)));
  }

  /** Creates or replaces a manifest: `created`, `updated` or `unchanged`. */
  async put(key: string, manifest: Manifest): Promise<"created" | "updated" | "unchanged"> {
    const reply = (await this.#send("PUT", path(key), { body: manifest })) as { became: "created" };
    return reply.became;
  }

  /** Deletes a manifest, if there is one. Jobs that it planned and that wait are cancelled. */
  async delete(key: string): Promise<void> {
    try {
      await this.#send("DELETE", path(key));
    } catch (error) {
      // Also the answer to a repeated request whose first response was lost.
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  /** Pauses a manifest: it plans nothing, and its waiting jobs stay where they are. */
  async pause(key: string): Promise<void> {
    await this.#send("POST", `${path(key)}/pause`);
  }

  async resume(key: string): Promise<void> {
    await this.#send("POST", `${path(key)}/resume`);
  }

  /** Runs a manifest once, beside its schedule, and returns the id of the job. */
  async run(key: string, options: RunManifestOptions = {}): Promise<string> {
    const { input, dueAt, delayMs, idempotencyKey } = options;
    const body = { input, due_at: dueAt instanceof Date ? dueAt.toISOString() : dueAt, in_ms: delayMs };
    const headers = { "idempotency-key": idempotencyKey ?? randomUuid() };
    const reply = (await this.#send("POST", `${path(key)}/run`, { body, headers })) as { id: string };
    return reply.id;
  }

  /** The next `n` ticks, as RFC 3339. A paused manifest has none. */
  async next(key: string, n = 5): Promise<string[]> {
    const reply = (await this.#send("GET", `${path(key)}/next${query({ n })}`)) as { ticks: { tick_at: string }[] };
    return reply.ticks.map((tick) => tick.tick_at);
  }
}

const path = (key: string): string => `/manifests/${encodeURIComponent(key)}`;
