/** Child processes whose output is read line by line. They end with the test. */

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { eventually } from "./eventually.js";

const alive = new Set<ChildProcess>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

export class Child {
  readonly lines: string[] = [];
  readonly #process: ChildProcess;
  readonly #exit: Promise<number | null>;

  constructor(program: string, args: string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
    // The server refuses variables that it does not know.
    const { LINECLEAR_BIN: _, ...inherited } = process.env;
    const env = { ...inherited, ...options.env };
    this.#process = spawn(program, args, { ...options, env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#process.stdout!, this.#process.stderr!]) {
      createInterface({ input: stream }).on("line", (line) => this.lines.push(line));
    }
    alive.add(this.#process);
    this.#exit = new Promise((resolve, reject) => {
      this.#process.on("error", reject);
      this.#process.on("close", (code) => {
        alive.delete(this.#process);
        resolve(code);
      });
    });
  }

  /** The first line that contains a text. */
  line(text: string): Promise<string> {
    const what = () => `a line with "${text}" in\n${this.lines.join("\n")}\n`;
    return eventually(what, () => this.lines.find((line) => line.includes(text)));
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  /** The exit code; null if a signal ended it. */
  exit(): Promise<number | null> {
    return this.#exit;
  }

  async end(name: NodeJS.Signals = "SIGKILL"): Promise<number | null> {
    this.signal(name);
    return this.#exit;
  }
}
