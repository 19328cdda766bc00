// Writes the examples of the README to `readme/`, named after their headings, so that they are compiled and run with the tests.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const folder = new URL("readme/", import.meta.url);
const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
for (const section of readme.split(/^## /m).slice(1)) {
  const name = section.split("\n", 1)[0].toLowerCase().replaceAll(" ", "-");
  const [, code] = /```ts\n(.*?)```/s.exec(section) ?? [];
  if (code === undefined) continue;
  // The server of the test has another address, and so has the endpoint.
  const runnable = code.replaceAll('"http://127.0.0.1:7171"', "process.env.URL!").replace("listen(8080)", "listen(Number(process.env.PORT))");
  writeFileSync(new URL(`${name}.ts`, folder), runnable);
}
