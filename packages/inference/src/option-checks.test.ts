import { type ProbedOptions, problemsOfOptions, takes } from '@mtl/errors/testing';
import { describe, expect, it } from 'vitest';
import { clozeAccuracy } from './cloze-accuracy.js';
import { continuationScores } from './continuation-scores.js';
import { generate } from './generate.js';
import { generateAll } from './generate-all.js';
import { perplexity } from './perplexity.js';
import { checkSampling } from './sampling.js';
import { scoreTokens } from './score-tokens.js';

const neverCalled = (): never => {
  throw new Error('the model was called');
};
const model = {
  vocabularySize: 8,
  maximumContext: 8,
  newCache: neverCalled,
  forward: neverCalled,
  tokenLosses: neverCalled,
};
const five = (value: unknown): boolean => value === 5;
const tokens = (value: unknown): boolean => Array.isArray(value);
const ofGenerate = {
  right: { model, prompts: [[1]], maxNewTokens: 1 },
  last: 'signal',
  accepts: {
    model: takes.nothing,
    'model.forward': takes.function,
    'model.vocabularySize': five,
    prompts: takes.emptyArray,
    maxNewTokens: five,
    sampling: takes.emptyObject,
    'sampling.temperature': five,
    'sampling.topK': five,
    'sampling.topP': takes.nothing,
    seed: five,
    sampleNumbers: takes.emptyArray,
    stopTokens: takes.emptyArray,
    whenContextIsFull: takes.nothing,
    logProbabilities: (value: unknown) => value === true,
    signal: takes.nothing,
  },
} as const;

/** Makes the test case for a function that scores targets after contexts. */
const ofScores = (list: string, others: ProbedOptions['accepts'] = {}) => ({
  right: { model, [list]: [{ context: [1], target: [2] }] },
  last: 'onProgress',
  accepts: {
    model: takes.nothing,
    [list]: takes.emptyArray,
    batchSize: five,
    ...others,
    onProgress: takes.function,
  },
});

const probed: readonly ProbedOptions[] = [
  {
    name: 'generate',
    call: (options) => generate(options as Parameters<typeof generate>[0]).next(),
    ...ofGenerate,
  },
  {
    name: 'generateAll',
    call: (options) => generateAll(options as Parameters<typeof generateAll>[0]),
    ...ofGenerate,
  },
  {
    name: 'checkSampling',
    call: (options) => checkSampling(options as Parameters<typeof checkSampling>[0]),
    last: 'topP',
    accepts: { temperature: five, topK: five, topP: takes.nothing },
  },
  {
    name: 'perplexity',
    call: (options) => perplexity(options as Parameters<typeof perplexity>[0]),
    right: { model, tokens: [1, 2] },
    last: 'onProgress',
    accepts: {
      model: takes.nothing,
      tokens,
      given: takes.nothing,
      window: five,
      overlap: five,
      batchSize: five,
      signal: takes.nothing,
      onProgress: takes.function,
    },
  },
  {
    name: 'clozeAccuracy',
    call: (options) => clozeAccuracy(options as Parameters<typeof clozeAccuracy>[0]),
    ...ofScores('examples', { signal: takes.nothing }),
  },
  {
    name: 'continuationScores',
    call: (options) => continuationScores(options as Parameters<typeof continuationScores>[0]),
    ...ofScores('continuations'),
  },
  {
    name: 'scoreTokens',
    call: (options) => scoreTokens(options as Parameters<typeof scoreTokens>[0]),
    right: { model, tokens: [1, 2] },
    last: 'tokens',
    accepts: { model: takes.nothing, tokens },
  },
];

describe('options of any JavaScript type', () => {
  it.each(probed.map((each) => [each.name, each] as const))(
    'are taken by %s, or refused with their path',
    async (_, each) => {
      expect(await problemsOfOptions(each)).toEqual([]);
    },
  );
});
