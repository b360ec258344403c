import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

/** Returns true if the name of a program or module has the extension of a TypeScript file. */
export const isTypeScript = (path: string): boolean => /\.[cm]?ts$/.test(path);

/**
 * Returns the URL of a module that makes Node.js run TypeScript; undefined if tsx is not installed. The
 * module belongs to the copy of tsx that is installed near `path`, or otherwise near this package. In a
 * process, the module must be imported first; in a thread, the module's `register` must be called.
 */
export function typescriptLoader(path: string, kind: 'process' | 'thread' = 'process'): string | undefined {
  for (const from of [path, import.meta.url]) {
    try {
      const loader = pathToFileURL(createRequire(from).resolve('tsx')).href;
      // the path is built from the folder, because require.resolve('tsx/esm/api') finds a CommonJS build that
      // does not work in threads
      return kind === 'process' ? loader : new URL('./esm/api/index.mjs', loader).href;
    } catch {} // tsx is not installed there
  }
  return undefined;
}
