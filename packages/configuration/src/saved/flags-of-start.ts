import { adapterStartFlags } from '../adapters/adapter-flags.js';

/**
 * Flags that select the initial weights of a run. If `--load` names the run's own folder, it overrides these
 * flags.
 */
export const flagsOfStart: readonly string[] = ['load-hf', 'load', 'finetune', ...adapterStartFlags];
