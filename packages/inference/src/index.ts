export type { CausalLanguageModel, KeyValueCache, SequenceTokens } from './causal-language-model.js';
export {
  type ClozeAccuracy,
  type ClozeAccuracyOptions,
  type ClozeExample,
  clozeAccuracy,
} from './cloze-accuracy.js';
export {
  type Continuation,
  type ContinuationScores,
  type ContinuationScoresOptions,
  continuationScores,
} from './continuation-scores.js';
export {
  type FinishReason,
  type GeneratedToken,
  type GenerateOptions,
  generate,
  numTokensKept,
} from './generate.js';
export { type GeneratedSequence, generateAll } from './generate-all.js';
export { type Perplexity, type PerplexityOptions, perplexity } from './perplexity.js';
export { checkSampling, type Sampling, sampleToken, samplingProbabilities } from './sampling.js';
export { scoreTokens } from './score-tokens.js';
export { TextStream } from './text-stream.js';
