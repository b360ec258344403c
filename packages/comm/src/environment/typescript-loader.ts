import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

/** Returns true if the name of a program or module ends as TypeScript files do. */
export const isTypeScript = (path: string): boolean => /\.[cm]?ts$/.test(path);

/**
 * Returns the URL of a module that makes Node.js run TypeScript, from the tsx that is installed near `path`,
 * else near this package. A process imports this module first; a thread calls its `register`. Undefined if
 * tsx is not installed.
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
