// Test utilities that @mtl/formats shares with this package: @mtl/models/testing within the repository, not
// published.
export { type LanguageModelResult, useLanguageModel } from '../tensor-parallel/language-model.js';
export { smallBert } from '../tensor-parallel/small-bert.js';
export { buildGpt, smallGpt } from '../tensor-parallel/small-gpt.js';
export { llamaVariants } from './small-llama.js';
