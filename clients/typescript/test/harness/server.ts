/** The real server, on SQLite in its own folder. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client } from "lineclear";
import { Child } from "./child.js";

const folders: string[] = [];
process.on("exit", () => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

export class Server {
  readonly folder = mkdtempSync(join(tmpdir(), "lineclear-typescript-"));
  readonly #args: string[];
  #child: Child | undefined;
  /** Its address, which is another one after a restart. */
  url = "";

  private constructor(args: string[]) {
    this.#args = args;
    folders.push(this.folder);
  }

  /** Starts a server with settings that `lineclear.toml` contains. */
  static async start(args: string[] = [], settings = ""): Promise<Server> {
    const server = new Server(args);
    writeFileSync(join(server.folder, "lineclear.toml"), settings);
    await server.start();
    return server;
  }

  get client(): Client {
    return new Client({ url: this.url });
  }

  address(): { host: string; port: number } {
    const { hostname, port } = new URL(this.url);
    return { host: hostname, port: Number(port) };
  }

  async start(): Promise<void> {
    const program = process.env.LINECLEAR_BIN;
    if (program === undefined) throw new Error("set LINECLEAR_BIN to the binary of the server");
    const env = { XDG_CONFIG_HOME: join(this.folder, "none") };
    this.#child = new Child(program, ["serve", "--port", "0", ...this.#args], { cwd: this.folder, env });
    const line = await this.#child.line("API  http://");
    this.url = /http:\/\/[^/\s]+/.exec(line)![0];
  }

  async end(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await this.#child?.end(signal);
  }
}
