import { expect, it } from 'vitest';
import { findFlips, measureGap, type TokenChoice, textOfFlip } from '../parity/routing.mjs';

const softmax = { topK: 2, scoreFunction: 'softmax', numGroups: 1, groupTopK: 1 };
const sigmoid = (score: number): number => Math.log(score / (1 - score));

it('a tie of experts is one of their logits', () => {
  const choice = { experts: [2, 0], logits: [1, 0.75, 3, -1], selection: softmax };
  expect(measureGap(choice, [2, 1])).toBeCloseTo(0.25, 12);
  // equal scores may change their order
  expect(measureGap({ ...choice, logits: [3, 0, 3, -1] }, [0, 2])).toBe(0);
});

it('a tie of biased scores is one of scores and biases, however far logits are from each other', () => {
  const logits = [0.5, 0.25, 0.125, 0.0625].map(sigmoid);
  const selection = { ...softmax, topK: 1, scoreFunction: 'sigmoid', bias: [0, 0.25, 0, 0] };
  expect(measureGap({ experts: [0], logits, selection }, [1])).toBeCloseTo(0, 12);
  expect(measureGap({ experts: [0], logits, selection }, [2])).toBeCloseTo(0.375, 12);
});

it('a tie of groups is one of the sums of their largest scores', () => {
  const logits = [0.5, 0.25, 0.7, 0.06, 0.1, 0.1, 0.1, 0.1].map(sigmoid);
  const selection = { topK: 2, scoreFunction: 'sigmoid', numGroups: 4, groupTopK: 1 };
  // the groups score 0.5 + 0.25 and 0.7 + 0.06; their experts are 0.2 and 0.19 apart
  expect(measureGap({ experts: [2, 3], logits, selection }, [0, 1])).toBeCloseTo(0.01, 12);
});

it('steps with ties are found by the first layer of each sample, whose followers are no ties', () => {
  const choice = (experts: readonly number[], gap: number): TokenChoice => ({
    experts,
    logits: [gap, 0],
    selection: { ...softmax, topK: 1 },
  });
  const tokens = (flipped: Readonly<Record<string, number>>, experts: readonly number[]) =>
    new Map(
      ['1/a/0/0', '2/a/0/0', '2/a/1/0', '2/b/0/0', '3/a/0/0', '3/a/0/1', '3/b/0/0'].map((token) => [
        token,
        choice(token in flipped ? experts : [0], flipped[token] ?? 1),
      ]),
    );
  // in step 2, a tie in layer a changes the choice of a token in layer b; in step 3, one of two flips is not
  // a tie
  const flipped = { '2/a/0/0': 1e-8, '2/b/0/0': 0.5, '3/a/0/0': 1e-8, '3/a/0/1': 0.25, '3/b/0/0': 1e-8 };
  const flips = findFlips(tokens(flipped, [1]), tokens(flipped, [0]));
  expect(flips).toEqual([
    {
      iteration: 2,
      gap: 1e-8,
      isNearTie: true,
      tokens: [{ router: 'a', sample: '0', position: '0' }],
    },
    {
      iteration: 3,
      gap: 0.25,
      isNearTie: false,
      tokens: [
        { router: 'a', sample: '0', position: '0' },
        { router: 'a', sample: '0', position: '1' },
      ],
    },
  ]);
  expect(flips.map(textOfFlip)).toEqual([
    'step 2: 1 token of a (sample 0 position 0)',
    'step 3: 2 tokens of a (sample 0 position 0, sample 0 position 1)',
  ]);
  // only flips in later layers of the same sample are left out
  const apart = { '2/a/0/0': 1e-8, '2/a/1/0': 0.5 };
  expect(findFlips(tokens(apart, [1]), tokens(apart, [0]))).toMatchObject([
    { iteration: 2, gap: 0.5, isNearTie: false },
  ]);
  expect(findFlips(tokens({}, []), tokens({}, []))).toEqual([]);
});
