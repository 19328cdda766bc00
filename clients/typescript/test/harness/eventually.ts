/** Waiting for a condition. */

const DEADLINE_MS = 60_000;

/** Returns the first value that is not `undefined` or `false`. Fails after a deadline. */
export async function eventually<T>(what: () => string, look: () => T | Promise<T>): Promise<Exclude<T, undefined | false>> {
  const ends = Date.now() + DEADLINE_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found as Exclude<T, undefined | false>;
    if (Date.now() > ends) throw new Error(`${what()}: not within ${DEADLINE_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
