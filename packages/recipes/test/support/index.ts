// What tests of the programs share with those of this package: @mtl/recipes/testing within the repository,
// not published.
export { checkpointBytes } from './checkpoint-bytes.js';
export { mergeOptions } from './merge-options.mjs';
export { preparedCorpus } from './prepared-corpus.js';
export { smallSentences } from './small-sentences.js';
export { withoutFlags } from './without-flags.js';
export { prepareCorpus, prepareSentences } from './words-for-programs.js';
