import type { ModelSize } from '../src/index.js';

/** A GPT of Narayanan et al. 2021 and Korthikanti et al. 2022: sequences of 2048 tokens, 51,200 words. */
export const gpt = (numLayers: number, hiddenSize: number, numHeads: number): ModelSize => ({
  numLayers,
  hiddenSize,
  numHeads,
  sequenceLength: 2048,
  vocabularySize: 51_200,
});
