import { adapterStartFlags } from '../adapters/adapter-flags.js';

/** Flags that select the initial weights of a run. `--load` with the run's own folder overrides them. */
export const flagsOfStart: readonly string[] = ['load-hf', 'load', 'finetune', ...adapterStartFlags];
