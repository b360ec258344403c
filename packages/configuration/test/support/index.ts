// Test helpers that other packages of the repository use, as @mtl/configuration/testing; they are not
// published.
export { catchError, configure, small, withFlags } from './configure.js';
export { mergeOptions } from './merge-options.mjs';
export { type Contradiction, refusals } from './refusals.js';
export { smallRun } from './small-run.js';
