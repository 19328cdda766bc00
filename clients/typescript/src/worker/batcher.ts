/** Sends items in batches: what arrives while a request is under way goes with the next one. */

import { ApiError, isTemporary } from "../errors.js";
import { Backoff, sleep } from "../time.js";

interface Entry<Item, Answer> {
  item: Item;
  bytes: number;
  tries: number;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

export interface BatcherOptions<Item, Answer> {
  /** Sends a batch and returns the answers in the same order. It is repeated until the server decides. */
  send(items: Item[]): Promise<Answer[]>;
  /** Why an item need not be sent any more; `undefined` if it must be. */
  givenUp(item: Item, tries: number): Error | undefined;
  /** What an item counts towards `weightMax`. */
  weight(item: Item): number;
  weightMax: number;
  bytesMax: number;
}

export class Batcher<Item, Answer> {
  #queue: Entry<Item, Answer>[] = [];
  #running = false;
  readonly #options: BatcherOptions<Item, Answer>;
  readonly #backoff = new Backoff(2_000);
  readonly #closed = new AbortController();

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options;
  }

  add(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ item, bytes: JSON.stringify(item).length, tries: 0, resolve, reject });
      void this.#run();
    });
  }

  /** Sends nothing any more. What waits is given up with this error. */
  close(error: Error): void {
    this.#closed.abort(error);
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    // Items of the same turn go together.
    await Promise.resolve();
    for (let batch = this.#take(); batch.length > 0; batch = this.#take()) await this.#send(batch);
    this.#running = false;
  }

  #take(): Entry<Item, Answer>[] {
    const batch: Entry<Item, Answer>[] = [];
    const rest: Entry<Item, Answer>[] = [];
    let [weight, bytes] = [0, 0];
    for (const entry of this.#queue) {
      const { aborted, reason } = this.#closed.signal;
      const over = aborted ? (reason as Error) : this.#options.givenUp(entry.item, entry.tries);
      if (over !== undefined) {
        entry.reject(over);
        continue;
      }
      weight += this.#options.weight(entry.item);
      bytes += entry.bytes;
      const fits = batch.length === 0 || (weight <= this.#options.weightMax && bytes <= this.#options.bytesMax);
      (fits && rest.length === 0 ? batch : rest).push(entry);
    }
    this.#queue = rest;
    return batch;
  }

  async #send(batch: Entry<Item, Answer>[]): Promise<void> {
    for (const entry of batch) entry.tries += 1;
    try {
      const answers = await this.#options.send(batch.map((entry) => entry.item));
      batch.forEach((entry, position) => entry.resolve(answers[position]!));
      this.#backoff.reset();
    } catch (error) {
      if (isTemporary(error)) {
        this.#queue.unshift(...batch);
        await sleep(this.#backoff.nextMs(error instanceof ApiError ? error.retryAfterMs : 0), this.#closed.signal);
      } else if (batch.length > 1) {
        // One bad item must not hold up the others.
        for (const entry of batch) await this.#send([entry]);
      } else {
        batch[0]!.reject(error);
      }
    }
  }
}
