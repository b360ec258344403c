import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Makes a directory for one test file; `dispose` removes it. */
export function temporaryDirectory(): { readonly path: string; dispose(): void } {
  const path = mkdtempSync(join(tmpdir(), 'mtl-cli-'));
  return { path, dispose: () => rmSync(path, { recursive: true, force: true }) };
}

/** Returns all files under a directory with their contents, to see what a command wrote. */
export function filesUnder(directory: string): Record<string, string> {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort();
  const files = names.filter((name) => statSync(join(directory, name)).isFile());
  return Object.fromEntries(files.map((name) => [name, readFileSync(join(directory, name), 'latin1')]));
}
