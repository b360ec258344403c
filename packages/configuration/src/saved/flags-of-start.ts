import { adapterStartFlags } from '../adapters/adapter-flags.js';

/** Flags for the initial weights of a run. `--load` of the run's own folder overrides them. */
export const flagsOfStart: readonly string[] = ['load-hf', 'load', 'finetune', ...adapterStartFlags];
