import { expect, it } from 'vitest';
import { numParameters } from '../model-parameters.js';
import { gptModel } from './gpt-model.js';

const sizes = {
  numLayers: 12,
  hiddenSize: 768,
  numAttentionHeads: 12,
  maxPositionEmbeddings: 1024,
  vocabularySize: 50257,
};

it('gives GPT-2 the number of parameters that it has, without the padding of its vocabulary', () => {
  expect(numParameters(gptModel({ ...sizes, makeVocabularySizeDivisibleBy: 1 }))).toBe(124_439_808);
});

it('changes nothing that is given', () => {
  const given = { ...sizes, ffnHiddenSize: 1000, tieEmbeddings: false, hiddenDropout: 0, swiglu: true };
  expect(gptModel(given)).toMatchObject(given);
  expect(gptModel(sizes)).toMatchObject({ ffnHiddenSize: 3072, tieEmbeddings: true, hiddenDropout: 0.1 });
});
