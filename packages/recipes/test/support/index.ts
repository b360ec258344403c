// What tests of the programs share with those of this package: @mtl/recipes/testing within the repository, not published.
export { checkpointBytes } from './checkpoint-bytes.js';
export { prepareCorpus } from './prepare-corpus.js';
export { prepareSentences } from './prepare-sentences.js';
export { smallSentences } from './small-sentences.js';
export { withoutFlags } from './without-flags.js';
