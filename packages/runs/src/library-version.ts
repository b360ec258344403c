import { readFileSync } from 'node:fs';

/** The version in this package's package.json, which is one directory above src/ and dist/. */
export const libraryVersion: string = (
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
