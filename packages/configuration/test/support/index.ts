// Test helpers that other packages share with this package: @mtl/configuration/testing within the repository,
// not published.
export { configure, errorOf, small, withFlags } from './configure.js';
export { mergeOptions } from './merge-options.mjs';
export { type Contradiction, refusals } from './refusals.js';
export { smallRun } from './small-run.js';
