import { readFileSync } from 'node:fs';

/** The version in this package's package.json; src/ and dist/ both lie next to it. */
export const libraryVersion: string = (
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
