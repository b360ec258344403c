// Helpers that tests of the programs share with those of this package: @mtl/runs/testing within the
// repository, not published.

export { mergeOptions } from '@mtl/configuration/testing/merge-options';
export { checkpointBytes } from './checkpoint-bytes.js';
export { preparedCorpus } from './prepared-corpus.js';
export { smallSentences } from './small-sentences.js';
export { withoutFlags } from './without-flags.js';
export { prepareCorpus, prepareSentences } from './words-for-programs.js';
