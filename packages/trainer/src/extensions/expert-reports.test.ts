import { describe, expect, it } from 'vitest';
import type { StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import { ExpertBalance, type LoadOfExperts } from './expert-balance.js';

/** A layer with two experts, whose row counts the test sets. */
class FakeLoad implements LoadOfExperts {
  readonly numExperts = 2;
  readonly expertBias = undefined;
  readonly updateRate = 0;
  #counts: readonly number[] = [0, 0];
  #numChoices = 0;
  #sum = 0;
  #numRows = 0;
  readonly entropy = {
    isWatched: false,
    take: () => {
      const taken = { sum: this.#sum, numRows: this.#numRows };
      [this.#sum, this.#numRows] = [0, 0];
      return taken;
    },
  };

  constructor(readonly layer: string) {}

  /**
   * Adds a forward pass. `counts` is the number of rows that reach each expert. The remaining expert
   * assignments of `numChoices` are dropped. Each row has the entropy `entropy`.
   */
  pass(counts: readonly [number, number], { numChoices = counts[0] + counts[1], entropy = 0 } = {}): void {
    this.#counts = this.#counts.map((sum, expert) => sum + counts[expert]!);
    this.#numChoices += numChoices;
    if (!this.entropy.isWatched) return;
    this.#sum += numChoices * entropy;
    this.#numRows += numChoices;
  }

  take(): readonly number[] {
    const taken = this.#counts;
    this.#counts = [0, 0];
    return taken;
  }

  takeChoices(): number {
    const taken = this.#numChoices;
    this.#numChoices = 0;
    return taken;
  }
}

/** Runs a step with the given passes and returns its events. */
function step(balance: ExpertBalance, iteration: number, passes: () => void): readonly TrainingEvent[] {
  balance.aroundPasses(iteration, passes);
  return balance.afterStep({ iteration, skipped: false } as StepMetrics);
}

const layers = ['decoder.layers.0.mlp', 'decoder.layers.1.mlp'];

/**
 * Makes an `ExpertBalance` for two layers. This rank has one or both of the layers. The fake sum over ranks
 * is this rank's value times `numRanks`.
 */
function makeBalance(loads: readonly FakeLoad[], { interval = 2, numRanks = 1 } = {}): ExpertBalance {
  const sum = (values: readonly number[]) => values.map((value) => value * numRanks);
  return new ExpertBalance({ loads, layers, numExperts: 2, ranks: { sum }, interval });
}

describe('what ExpertBalance reports', () => {
  it('reports loads and dropped choices of an interval over all ranks, and the entropy of its last step', () => {
    const loads = layers.map((layer) => new FakeLoad(layer));
    const balance = makeBalance(loads, { numRanks: 2 });
    const first = step(balance, 1, () => {
      loads[0]!.pass([3, 1], { numChoices: 6, entropy: 9 });
      loads[1]!.pass([2, 4]);
    });
    expect(first).toEqual([]);
    const [event] = step(balance, 2, () => {
      loads[0]!.pass([2, 2], { numChoices: 4, entropy: 0.5 });
      loads[0]!.pass([2, 2], { numChoices: 4, entropy: 0.25 });
      loads[1]!.pass([3, 3]);
    });
    expect(event).toMatchObject({ type: 'experts', iteration: 2 });
    expect(event!.text).toBeUndefined();
    expect(event!.fields).toEqual({
      steps: 2,
      layers,
      loads: [
        [14, 10],
        [10, 14],
      ],
      dropped: [1 - 24 / 28, 0],
      entropy: [0.375, 0],
    });
  });

  it('has no entropy for a layer without rows, and counts passes that are computed again once', () => {
    const load = new FakeLoad(layers[1]!);
    const balance = makeBalance([load], { interval: 1 });
    const passes = () => load.pass([1, 3], { numChoices: 5, entropy: 0.5 });
    balance.aroundPasses(1, passes);
    const [event] = step(balance, 1, passes);
    expect(event!.fields).toMatchObject({
      loads: [
        [0, 0],
        [1, 3],
      ],
      dropped: [0, 1 - 4 / 5],
      entropy: [null, 0.5],
    });
  });

  it('names experts that got no tokens, again only when they are others', () => {
    const loads = layers.map((layer) => new FakeLoad(layer));
    const balance = makeBalance(loads, { interval: 1 });
    const describeReport = (iteration: number, counts: readonly [number, number]) => {
      const [event] = step(balance, iteration, () => {
        loads[0]!.pass(counts);
        loads[1]!.pass([1, 1]);
      });
      return event!.text;
    };
    expect(describeReport(1, [4, 0])).toBe(
      'experts that got no tokens in this step: decoder.layers.0.mlp: 1',
    );
    expect(describeReport(2, [4, 0])).toBeUndefined();
    expect(describeReport(3, [0, 4])).toBe(
      'experts that got no tokens in this step: decoder.layers.0.mlp: 0',
    );
    expect(describeReport(4, [2, 2])).toBeUndefined();
  });

  it('goes on with the counts of a checkpoint, and refuses counts of another model', () => {
    const [load, resumed] = [new FakeLoad(layers[0]!), new FakeLoad(layers[0]!)];
    const balance = makeBalance([load]);
    step(balance, 1, () => load.pass([3, 1], { numChoices: 8 }));
    const state = JSON.parse(JSON.stringify(balance.state)) as object;
    const other = makeBalance([resumed]);
    other.restore(state, 'a checkpoint');
    const [event] = step(other, 2, () => resumed.pass([3, 1], { numChoices: 8 }));
    expect(event!.fields).toMatchObject({
      steps: 2,
      loads: [
        [6, 2],
        [0, 0],
      ],
      dropped: [0.5, 0],
    });
    for (const wrong of [{ choices: [1] }, { reported: [1, 2] }, { steps: -1 }, { choices: [0.5, 0] }]) {
      expect(() => other.restore({ ...state, ...wrong }, 'a checkpoint')).toThrow(/experts is wrong/);
    }
  });
});
