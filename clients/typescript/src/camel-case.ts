/** The server's field names in the style of TypeScript. */

/** Values of users, and manifests, which are written as in a manifest file: they stay as they are. */
const VERBATIM = new Set(["input", "output", "manifest"]);

export function camelCase<T>(value: unknown): T {
  if (Array.isArray(value)) return value.map((item) => camelCase(item)) as T;
  if (typeof value !== "object" || value === null) return value as T;
  const fields = Object.entries(value).map(([name, field]) => [
    name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    VERBATIM.has(name) ? field : camelCase(field),
  ]);
  return Object.fromEntries(fields) as T;
}
