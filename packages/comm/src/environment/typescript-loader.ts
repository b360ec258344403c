import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

/** Returns whether a program or module is TypeScript, by its name. */
export const isTypeScript = (path: string): boolean => /\.[cm]?ts$/.test(path);

/**
 * Returns the URL of what runs TypeScript, of the tsx that is installed where `path` is, else next to this
 * package: a module that a process imports first, or, for a thread, one whose `register` it calls. Undefined
 * where there is none.
 */
export function typescriptLoader(path: string, kind: 'process' | 'thread' = 'process'): string | undefined {
  for (const from of [path, import.meta.url]) {
    try {
      const loader = pathToFileURL(createRequire(from).resolve('tsx')).href;
      // 'tsx/esm/api': require.resolve finds its CommonJS build, which does not work in threads
      return kind === 'process' ? loader : new URL('./esm/api/index.mjs', loader).href;
    } catch {} // it is not installed there
  }
  return undefined;
}
