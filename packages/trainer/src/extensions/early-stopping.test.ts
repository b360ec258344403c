import { describe, expect, it } from 'vitest';
import { EarlyStopping } from './early-stopping.js';

const observed = (losses: readonly number[], stopping = new EarlyStopping({ patience: 2 })): number => {
  for (const [index, loss] of losses.entries()) {
    stopping.afterEvaluation({ loss, iteration: index + 1 });
    if (stopping.endsRun !== undefined) return index + 1;
  }
  return Number.POSITIVE_INFINITY;
};

describe('EarlyStopping', () => {
  it.each([
    [[3, 2, 1, 0.5], Number.POSITIVE_INFINITY],
    [[3, 3.1, 2, 2.5, 1, 2, 1], 7],
    [[3, 4, 5], 3],
    [[2, 2, 2], 3],
    [[2, Number.NaN, Number.NaN], 3],
    [[Number.NaN, 2, 1], Number.POSITIVE_INFINITY],
    [[Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY], 2],
  ])('ends %j after evaluation %d', (losses, end) => {
    expect(observed(losses)).toBe(end);
  });

  it('goes on from its state', () => {
    const first = new EarlyStopping({ patience: 2 });
    observed([3, 2, 2.5], first);
    expect(first.state).toEqual({ best: { loss: 2, iteration: 2 }, numWorse: 1 });
    const state = JSON.parse(JSON.stringify(first.state)) as typeof first.state;
    const second = new EarlyStopping({ patience: 2 });
    second.restore(state, 'a checkpoint');
    second.afterEvaluation({ loss: 2, iteration: 4 });
    expect(second.endsRun).toBe('early-stopping');
  });

  it.each([
    [{ best: null, numWorse: 0 }, true],
    [{ best: { loss: 2, iteration: 3 }, numWorse: 1 }, true],
    // an infinite loss, which JSON writes as null
    [{ best: { loss: null, iteration: 3 }, numWorse: 1 }, false],
    [{ best: { loss: 2 }, numWorse: 1 }, false],
    [{ best: null, numWorse: -1 }, false],
    [{ numWorse: 1 }, false],
    [null, false],
  ])('reads %j from a checkpoint: %s', (earlyStopping, isRead) => {
    const stopping = new EarlyStopping({ patience: 2 });
    const restore = () => stopping.restore(earlyStopping, 'a checkpoint');
    if (!isRead) return expect(restore).toThrow(expect.objectContaining({ code: 'MTL_CHECKPOINT_STATE' }));
    restore();
    expect(stopping.state).toEqual(earlyStopping);
  });
});
