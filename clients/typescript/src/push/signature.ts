/** Signatures of push requests, as Standard Webhooks defines them. */

import { platform } from "../platform.js";

const KEY_PREFIX = "whsec_";
const ALGORITHM = { name: "HMAC", hash: "SHA-256" };
/** A request has one signature for each secret of the sender. */
const SIGNATURES_MAX = 16;
const ID_CHARS_MAX = 255;

export class Verifier {
  readonly #keys: Promise<CryptoKey[]>;
  readonly #windowMs: number;

  constructor(secrets: string[], windowMs: number) {
    if (secrets.length === 0) throw new TypeError("`secrets` must contain at least one secret");
    const bytes = secrets.map(keyBytes);
    this.#keys = Promise.all(bytes.map((key) => platform.crypto.subtle.importKey("raw", key, ALGORITHM, false, ["verify"])));
    this.#windowMs = windowMs;
  }

  /** Returns why a request is refused; `undefined` if it is genuine and recent. */
  async refusal(headers: Headers, body: Uint8Array): Promise<string | undefined> {
    const id = headers.get("webhook-id");
    const timestamp = headers.get("webhook-timestamp");
    const signatures = headers.get("webhook-signature");
    if (!id || id.length > ID_CHARS_MAX || !timestamp || !signatures) return "the request is not signed";
    const signed = concat(new TextEncoder().encode(`${id}.${timestamp}.`), body);
    if (!(await this.#isSigned(signatures, signed))) return "the signature is wrong";
    // After the signature: others learn nothing about the clock.
    const ageMs = Math.abs(Date.now() - Number(timestamp) * 1000);
    return ageMs <= this.#windowMs ? undefined : "the timestamp is too far from now";
  }

  async #isSigned(signatures: string, signed: Uint8Array<ArrayBuffer>): Promise<boolean> {
    for (const signature of signatures.split(" ").slice(0, SIGNATURES_MAX)) {
      const bytes = signature.startsWith("v1,") ? fromBase64(signature.slice(3)) : undefined;
      if (bytes !== undefined && (await this.#matches(bytes, signed))) return true;
    }
    return false;
  }

  async #matches(signature: Uint8Array<ArrayBuffer>, signed: Uint8Array<ArrayBuffer>): Promise<boolean> {
    for (const key of await this.#keys) {
      if (await platform.crypto.subtle.verify(ALGORITHM, key, signature, signed)) return true;
    }
    return false;
  }
}

function keyBytes(secret: string): Uint8Array<ArrayBuffer> {
  const bytes = fromBase64(secret.startsWith(KEY_PREFIX) ? secret.slice(KEY_PREFIX.length) : secret);
  if (bytes === undefined || bytes.length < 24 || bytes.length > 64) {
    throw new TypeError("a secret must be 24 to 64 bytes in base64, after `whsec_`");
  }
  return bytes;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function concat(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}
