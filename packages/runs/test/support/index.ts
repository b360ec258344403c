// Test helpers for the programs and planning, shared with this package: @mtl/runs/testing within the
// repository, not published.

export { mergeOptions } from '@mtl/configuration/testing/merge-options';
export { checkpointBytes } from './checkpoint-bytes.js';
export { preparedCorpus } from './prepared-corpus.js';
export { preparedSentences } from './prepared-sentences.js';
export { processTestMs, runProcesses } from './run-processes.js';
export { smallSentences } from './small-sentences.js';
export { TrainingRuns, tolerances } from './training-runs.js';
export { WaitingRanks } from './waiting-ranks.js';
export { withoutFlags } from './without-flags.js';
export { prepareCorpus, prepareSentences } from './words-for-programs.js';
export { writeBaseModel } from './write-model.js';
