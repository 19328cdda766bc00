/** For Node alone: a push handler as a listener of `node:http`. */

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { Readable } from "node:stream";

type FetchHandler = (request: Request) => Promise<Response>;

/** `http.createServer(nodeListener(pushHandler(worker, { secrets })))` */
export function nodeListener(handler: FetchHandler): RequestListener {
  return (incoming, outgoing) => {
    void serve(handler, incoming, outgoing);
  };
}

async function serve(handler: FetchHandler, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const closed = new AbortController();
  outgoing.on("close", () => closed.abort());
  try {
    const response = await handler(toRequest(incoming, closed.signal));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(await response.text());
  } catch {
    // Nothing ran: a handler's own error is an outcome.
    if (!outgoing.headersSent) outgoing.writeHead(503);
    outgoing.end();
  }
}

function toRequest(incoming: IncomingMessage, signal: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  const hasBody = incoming.method !== "GET" && incoming.method !== "HEAD";
  const body = hasBody ? (Readable.toWeb(incoming) as unknown as ReadableStream) : null;
  // A body that is a stream needs `duplex`, which the types do not know.
  const init = { method: incoming.method ?? "GET", headers, body, signal, duplex: "half" } as RequestInit;
  return new Request(new URL(incoming.url ?? "/", "http://localhost"), init);
}
