import { adapterStartFlags } from '../adapters/adapter-flags.js';

/**
 * Flags of the weights that a run begins with. `--load` of the run's own folder takes the place of all these
 * flags.
 */
export const flagsOfStart: readonly string[] = ['load-hf', 'load', 'finetune', ...adapterStartFlags];
