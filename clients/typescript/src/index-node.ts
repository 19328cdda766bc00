/** The entry for Node, Deno and Bun: sets what their platform has, and exports the same as `index.ts`. */

import "./node-platform.js";

export * from "./index.js";
