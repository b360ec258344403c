import { fileURLToPath } from 'node:url';
import { typescriptFlags } from '@mtl/tooling/typescript-threads';

const locate = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/**
 * The words that start `mtl`: from its sources, which are never stale; or its build where `npm test` has just
 * made it, as users start it, in half of the time.
 */
export const mtlCommand: readonly string[] =
  process.env.MTL_TEST_BUILDS === undefined
    ? [process.execPath, ...typescriptFlags, locate('src/main.ts')]
    : [process.execPath, locate('bin/mtl.mjs')];

/** The words that start a program of apps/, from its sources or its build. */
export const appCommand = (name: 'gpt-train' | 'bert-train'): readonly string[] =>
  process.env.MTL_TEST_BUILDS === undefined
    ? [process.execPath, ...typescriptFlags, locate(`../../apps/${name}/src/main.ts`)]
    : [process.execPath, locate(`../../apps/${name}/dist/main.js`)];
