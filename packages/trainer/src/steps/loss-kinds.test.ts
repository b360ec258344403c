import { describe, expect, it } from 'vitest';
import {
  checkLossKinds,
  type LossKind,
  nameOfTotal,
  reportedLosses,
  tokenLosses,
  totalLoss,
} from './loss-kinds.js';
import type { Ranks } from './ranks.js';
import { collectParts, ownCounts, sumsOfParts } from './step-losses.js';

const kind = (name: string, more: Partial<LossKind<number>> = {}): LossKind<number> => ({
  name,
  per: 'token',
  count: () => 1,
  ...more,
});
const order = kind('sop_loss', { per: 'sample' });
const balance = kind('balance_loss', { per: 'layer', isAuxiliary: true, weight: 0.01 });

/** Returns the reported losses if the means of the kinds are 1, 2 and 4, in their order. */
function reported(losses: readonly LossKind<number>[]) {
  checkLossKinds(losses);
  const means = [1, 2, 4].slice(0, losses.length);
  return {
    ...reportedLosses(losses, means),
    ...tokenLosses(losses),
    total: totalLoss(losses, means),
    name: nameOfTotal(losses),
  };
}

describe('the losses of a training run', () => {
  it.each([
    ['one loss', [kind('lm_loss')], { loss: 1, total: 1, name: 'lm_loss' }],
    [
      'the loss of masked tokens next to another loss, and the total',
      [kind('lm_loss'), order],
      {
        loss: 1,
        total: 3,
        name: 'total_loss',
        otherLosses: { sop_loss: 2, total_loss: 3 },
        tokenLosses: ['lm_loss'],
      },
    ],
    [
      'the language model loss wherever it is, without its weight',
      [order, kind('lm_loss', { weight: 0.5 })],
      {
        loss: 2,
        total: 2,
        name: 'total_loss',
        otherLosses: { sop_loss: 1, total_loss: 2 },
        tokenLosses: ['lm_loss'],
      },
    ],
    [
      'no total of its own next to auxiliary losses, which are no part of it',
      [kind('lm_loss'), balance],
      { loss: 1, total: 1, name: 'lm_loss', otherLosses: { balance_loss: 2 }, tokenLosses: ['lm_loss'] },
    ],
    [
      'the total where no loss is a language model loss',
      [kind('first_loss'), order, balance],
      {
        loss: 3,
        total: 3,
        name: 'lm_loss',
        otherLosses: { first_loss: 1, sop_loss: 2, balance_loss: 4 },
        tokenLosses: ['first_loss'],
      },
    ],
  ])('are reported: %s', (_, losses, expected) => {
    expect(reported(losses)).toEqual(expected);
  });

  it('have other names than their total', () => {
    expect(() => reported([kind('lm_loss'), kind('total_loss')])).toThrow(
      expect.objectContaining({ code: 'MTL_LOSS_KINDS' }),
    );
  });

  it('adds parts of positions, and counts what ranks of a sequence have alike once', () => {
    const losses = [kind('lm_loss', { count: (tokens) => tokens }), balance];
    const ranks = [0, 1].map(
      (rank): Pick<Ranks, 'shareOfBatch' | 'isFirstOfStage' | 'isFirstOfSequence'> => ({
        shareOfBatch: { index: 0, count: 1 },
        isFirstOfStage: true,
        isFirstOfSequence: rank === 0,
      }),
    );
    const summed = (told: ReadonlyArray<readonly number[]>) =>
      told[0]!.map((_, at) => told.reduce((sum, values) => sum + values[at]!, 0));
    // two micro-batches with 6 and 4 tokens, and with losses of 5 and 3 if summed over both ranks
    expect(
      summed(ranks.map((each) => ownCounts([6, 4], { losses, ranks: each, isLastStage: true }))),
    ).toEqual([10, 1 + 1]);
    const own = [
      [2, 3],
      [3, 0],
    ].map((parts) => [parts, [0.5, 0.25]]);
    const parts = ranks.map((each, rank) =>
      collectParts(own[rank]!, { losses, ranks: each, numMicroBatches: 2 }),
    );
    expect(sumsOfParts(summed(parts), { losses })).toEqual([8, 0.75]);
  });
});
