import { describe, expect, it } from 'vitest';
import { continuationScores } from './continuation-scores.js';

/** A mock of a model. A label's loss is 100 times the token before the label, plus the label. */
const model = {
  vocabularySize: 10,
  maximumContext: 4,
  tokenLosses: ({ tokens, labels }: { readonly tokens: Int32Array; readonly labels: Int32Array }) =>
    Float32Array.from(tokens, (token, index) => 100 * token + labels[index]!),
};

describe('continuationScores', () => {
  it('sums the losses of the targets, whatever is computed at once', async () => {
    const continuations = [
      { context: [1], target: [2, 3] },
      { context: [4, 5], target: [6] },
      { context: [1, 2, 3], target: [4, 5] },
    ];
    for (const batchSize of [1, 2, 3]) {
      const { logProbabilities, numShortened } = await continuationScores({
        model,
        continuations,
        batchSize,
      });
      expect([...logProbabilities]).toEqual([-(102 + 203), -506, -(304 + 405)]);
      expect(numShortened).toBe(0);
    }
  });

  it('leaves out the beginning of what does not fit', async () => {
    const continuations = [{ context: [1, 2, 3, 4], target: [5, 6] }];
    const { logProbabilities, numShortened } = await continuationScores({ model, continuations });
    expect([...logProbabilities]).toEqual([-(405 + 506)]);
    expect(numShortened).toBe(1);
    const long = [{ context: [1], target: [2, 3, 4, 5, 6] }];
    const { logProbabilities: ofRest } = await continuationScores({ model, continuations: long });
    expect([...ofRest]).toEqual([-(203 + 304 + 405 + 506)]);
  });

  it('refuses empty parts and tokens that the model does not know', async () => {
    for (const continuation of [
      { context: [], target: [1] },
      { context: [1], target: [] },
      { context: [1], target: [10] },
    ])
      await expect(continuationScores({ model, continuations: [continuation] })).rejects.toMatchObject({
        code: 'MTL_TOKENS',
      });
    await expect(continuationScores({ model, continuations: [], batchSize: 0 })).rejects.toMatchObject({
      code: 'MTL_CONTINUATIONS',
    });
  });
});
