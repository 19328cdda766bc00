import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";

/** The folder of the package that the tests import: the sources' own, or an installed one. */
const PACKAGE = dirname(dirname(createRequire(import.meta.url).resolve("lineclear")));

const IMPORTS = /(?:^|[;\s}])(?:import|export)\s*(?:[^"'();]*?\sfrom\s*)?\(?\s*["']([^"']+)["']/g;

/** What a module of the package imports, with what those modules import. */
function importsOf(file: string, seen = new Set<string>()): Set<string> {
  const text = readFileSync(file, "utf8");
  for (const [, name] of text.matchAll(IMPORTS)) {
    const found = name!.startsWith(".") ? join(dirname(file), name!) : name!;
    if (seen.has(found)) continue;
    seen.add(found);
    if (name!.startsWith(".")) importsOf(found, seen);
  }
  return seen;
}

const outside = (entry: string) => [...importsOf(join(PACKAGE, "dist", entry))].filter((name) => !name.startsWith(PACKAGE));

describe("entries", () => {
  it("the entry for browsers imports only modules of the package, and none of Node", () => {
    const { exports } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as { exports: { ".": { default: string } } };
    assert.equal(exports["."].default, "./dist/index.js");
    assert.deepEqual(outside("index.js"), []);
    assert.ok(importsOf(join(PACKAGE, "dist/index.js")).has(join(PACKAGE, "dist/worker/worker.js")));
    // The same search finds the modules that the entry for Node imports.
    assert.ok(outside("index-node.js").includes("node:worker_threads"));
  });

  it("its types name no types of Node", () => {
    assert.deepEqual(outside("index.d.ts"), []);
    assert.ok(outside("node.d.ts").includes("node:http"));
  });

  it("Node gets the entry for Node", () => {
    assert.equal(createRequire(import.meta.url).resolve("lineclear"), join(PACKAGE, "dist/index-node.js"));
  });
});
