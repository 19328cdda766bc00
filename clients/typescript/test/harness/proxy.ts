/** A TCP proxy that loses responses: the server gets the request and answers, and the client sees a broken connection. */

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { TestContext } from "node:test";

interface Target {
  address(): { host: string; port: number };
}

export class Proxy {
  /** How many responses were lost. */
  lost = 0;
  readonly #target: Target;
  readonly #server = createServer((client) => this.#carry(client));
  readonly #sockets = new Set<Socket>();
  #lose: { request: string; times: number } | undefined;

  private constructor(target: Target) {
    this.#target = target;
  }

  static async to(t: TestContext, target: Target): Promise<Proxy> {
    const proxy = new Proxy(target);
    t.after(() => proxy.#close());
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Loses the next responses to requests that begin with this line, such as `POST /api/v1/claims `. */
  lose(request: string, times: number): void {
    this.#lose = { request, times };
  }

  #close(): void {
    this.#server.close();
    this.#sockets.forEach((socket) => socket.destroy());
  }

  #carry(client: Socket): void {
    const server = connect(this.#target.address());
    let request = "";
    client.on("data", (bytes) => {
      const start = bytes.toString("latin1", 0, 200);
      if (/^[A-Z]+ \//.test(start)) request = start;
      server.write(bytes);
    });
    server.on("data", (bytes) => {
      if (this.#lose && this.#lose.times > 0 && request.startsWith(this.#lose.request)) {
        this.#lose.times -= 1;
        this.lost += 1;
        client.destroy();
        server.destroy();
      } else {
        client.write(bytes);
      }
    });
    for (const [socket, other] of [[client, server], [server, client]] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
  }
}
