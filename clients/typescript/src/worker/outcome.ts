/** How an execution ended, as the server is told. */

import { Permanent, RetryIn, Snooze, CancelRequested, ClaimLost, ShuttingDown, TimedOut } from "./verdicts.js";

export interface ErrorInfo {
  type: string;
  message: string;
}

export type Outcome =
  | { outcome: "completed"; output?: unknown }
  | { outcome: "failed"; error: ErrorInfo; permanent?: boolean; in_ms?: number }
  | { outcome: "snoozed"; in_ms: number }
  | { outcome: "released" | "cancelled" | "timed_out" };

/** Longer messages are cut. */
const MESSAGE_CHARS_MAX = 4_000;
const CAUSES_MAX = 5;
/** Longer outputs are refused by the server. */
const OUTPUT_BYTES_MAX = 64 * 1_024;

export function describe(error: unknown): ErrorInfo {
  if (!(error instanceof Error)) return { type: "Error", message: cut(String(error)) };
  const messages = [error.message];
  let { cause } = error;
  while (cause instanceof Error && messages.length < CAUSES_MAX) {
    if (!messages.includes(cause.message)) messages.push(cause.message);
    cause = cause.cause;
  }
  return { type: error.name, message: cut(messages.filter((message) => message !== "").join(": ")) };
}

/** A handler returned. */
export function completed(output: unknown): Outcome {
  try {
    // A value that is no JSON fails here, in its own job, and not in a batch with others.
    const text = JSON.stringify(output) as string | undefined;
    if (text !== undefined && text.length > OUTPUT_BYTES_MAX) {
      throw new RangeError(`the output has ${text.length} characters of JSON; at most ${OUTPUT_BYTES_MAX} are kept`);
    }
    return text === undefined ? { outcome: "completed" } : { outcome: "completed", output: JSON.parse(text) as unknown };
  } catch (error) {
    return failedPermanently(error);
  }
}

/** A handler threw. */
export function threw(error: unknown): Outcome {
  if (error instanceof Snooze) return { outcome: "snoozed", in_ms: wholeMs(error.ms) };
  if (error instanceof Permanent) return failedPermanently(error.cause);
  if (error instanceof RetryIn) return { outcome: "failed", error: describe(error.cause), in_ms: wholeMs(error.ms) };
  return { outcome: "failed", error: describe(error) };
}

export function failedPermanently(error: unknown): Outcome {
  return { outcome: "failed", error: describe(error), permanent: true };
}

/** The outcome of a handler that was told to stop and gave no result; `undefined` if the claim is lost. */
export function stopped(reason: unknown): Outcome | undefined {
  if (reason instanceof ClaimLost) return undefined;
  if (reason instanceof CancelRequested) return { outcome: "cancelled" };
  if (reason instanceof TimedOut) return { outcome: "timed_out" };
  if (reason instanceof ShuttingDown) return { outcome: "released" };
  return threw(reason);
}

export const isVerdict = (error: unknown): boolean =>
  error instanceof Snooze || error instanceof Permanent || error instanceof RetryIn;

const wholeMs = (ms: number): number => Math.max(0, Math.round(ms));

const cut = (text: string): string => (text.length > MESSAGE_CHARS_MAX ? `${text.slice(0, MESSAGE_CHARS_MAX)}…` : text);
