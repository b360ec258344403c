import { Parameter } from '@mtl/autograd';
import { Tensor } from '@mtl/kernels';
import { afterEach, describe, expect, it } from 'vitest';
import type { StepMetrics } from '../metrics/training-reports.js';
import { ExpertBalance, type LoadOfExperts } from './expert-balance.js';

const layers = ['decoder.layers.0.mlp', 'decoder.layers.2.mlp'];
const opened: Tensor[] = [];
afterEach(() => {
  for (const tensor of opened.splice(0)) tensor.dispose();
});

function makeBias(values: readonly number[]): Parameter {
  const bias = new Parameter({
    name: 'expert_bias',
    globalShape: [values.length],
    initialization: { kind: 'zeros' },
    isBuffer: true,
  });
  const data = Tensor.from([...values], { shape: [values.length], dtype: 'float32' });
  opened.push(data);
  bias.assignData(data);
  return bias;
}

/** A layer's load that reports the row counts in `next` for the next pass. */
function makeLoad(layer: string, options: Partial<LoadOfExperts> = {}) {
  const next: number[] = [0, 0, 0, 0];
  const load: LoadOfExperts = {
    layer,
    numExperts: 4,
    expertBias: undefined,
    updateRate: 0,
    take: () => next.splice(0, 4, 0, 0, 0, 0),
    takeChoices: () => 0,
    entropy: { isWatched: false, take: () => ({ sum: 0, numRows: 0 }) },
    ...options,
  };
  return { load, gets: (...counts: number[]) => void next.splice(0, 4, ...counts) };
}

const step = (iteration: number, more: Partial<StepMetrics> = {}): StepMetrics =>
  ({ iteration, skipped: false, ...more }) as StepMetrics;

const alone = { sum: (values: readonly number[]) => values };

describe('ExpertBalance', () => {
  it('moves biases up where experts got fewer rows than the mean, down where more, and not at the mean', () => {
    const expertBias = makeBias([0, 0.5, 0, 0]);
    const { load, gets } = makeLoad(layers[0]!, { expertBias, updateRate: 0.001 });
    const balance = new ExpertBalance({ loads: [load], layers, numExperts: 4, ranks: alone, interval: 1 });
    balance.aroundPasses(1, () => gets(1, 2, 2, 3));
    balance.afterStep(step(1));
    const near = [0.001, 0.5, 0, -0.001].map((value) => expect.closeTo(value, 7));
    expect(expertBias.data.toArray()).toEqual(near);
  });

  it('compares whole numbers: counts that bfloat16 has no values of, one row from the mean', () => {
    const expertBias = makeBias([0, 0, 0, 0]);
    const { load, gets } = makeLoad(layers[0]!, { expertBias, updateRate: 1 });
    const balance = new ExpertBalance({ loads: [load], layers, numExperts: 4, ranks: alone, interval: 1 });
    balance.aroundPasses(1, () => gets(40_840, 40_839, 40_841, 40_840));
    balance.afterStep(step(1));
    expect(expertBias.data.toArray()).toEqual([0, 1, -1, 0]);
  });

  it('counts the rows of all ranks, by layer, wherever these layers are', () => {
    const { load, gets } = makeLoad(layers[1]!);
    const asked: number[][] = [];
    const ranks = {
      sum: (values: readonly number[]) => {
        asked.push([...values]);
        return values.map((value, index) => value + (index === 0 ? 7 : 1));
      },
    };
    const balance = new ExpertBalance({ loads: [load], layers, numExperts: 4, ranks, interval: 1 });
    balance.aroundPasses(1, () => gets(1, 2, 3, 4));
    const [event] = balance.afterStep(step(1));
    // there is one sum over ranks in each step; it contains the row counts of both layers, the score-based
    // expert assignments of both layers, and three values for each layer's report
    expect(asked).toEqual([[0, 0, 0, 0, 1, 2, 3, 4, ...new Array<number>(8 + 6).fill(0)]]);
    expect(event?.fields).toMatchObject({
      layers,
      loads: [
        [7, 1, 1, 1],
        [2, 3, 4, 5],
      ],
    });
  });

  it('counts passes that are computed again once, and moves nothing in a step that is skipped', () => {
    const expertBias = makeBias([0, 0, 0, 0]);
    const scored: (readonly number[])[] = [];
    const { load, gets } = makeLoad(layers[0]!, {
      expertBias,
      updateRate: 1,
      scored: { take: () => [1, 0, 0, 0], set: (...counts) => void scored.push(...counts) },
    });
    const balance = new ExpertBalance({ loads: [load], layers, numExperts: 4, ranks: alone, interval: 1 });
    for (const _ of [0, 1]) balance.aroundPasses(1, () => gets(4, 0, 0, 0));
    const [skipped] = balance.afterStep(step(1, { skipped: true }));
    expect(expertBias.data.toArray()).toEqual([0, 0, 0, 0]);
    expect(scored).toEqual([]);
    expect(skipped?.fields).toMatchObject({
      loads: [
        [4, 0, 0, 0],
        [0, 0, 0, 0],
      ],
    });
    balance.aroundPasses(2, () => gets(4, 0, 0, 0));
    balance.afterStep(step(2));
    expect(expertBias.data.toArray()).toEqual([-1, 1, 1, 1]);
    expect(scored).toEqual([[1, 0, 0, 0]]);
  });

  it('reports the rows of an interval, names idle experts once, and goes on where a checkpoint was', () => {
    const { load, gets } = makeLoad(layers[0]!);
    const other = makeLoad(layers[1]!);
    const options = { loads: [load, other.load], layers, numExperts: 4, ranks: alone, interval: 2 };
    const balance = new ExpertBalance(options);
    const pass = (of: ExpertBalance, iteration: number) => {
      of.aroundPasses(iteration, () => {
        gets(1, 0, 2, 1);
        other.gets(1, 1, 1, 1);
      });
      return of.afterStep(step(iteration));
    };
    expect(pass(balance, 1)).toEqual([]);
    const resumed = new ExpertBalance(options);
    resumed.restore(JSON.parse(JSON.stringify(balance.state)), 'a checkpoint');
    const [event] = pass(resumed, 2);
    expect(event).toMatchObject({
      type: 'experts',
      iteration: 2,
      text: 'experts that got no tokens in the last 2 steps: decoder.layers.0.mlp: 1',
      fields: {
        steps: 2,
        loads: [
          [2, 0, 4, 2],
          [2, 2, 2, 2],
        ],
      },
    });
    pass(resumed, 3);
    expect(pass(resumed, 4)[0]?.text).toBeUndefined();
    expect(() => resumed.restore({ reported: [1], steps: 1 }, 'a checkpoint')).toThrow(/experts is wrong/);
    expect(() => resumed.restore({ reported: 'x' }, 'a checkpoint')).toThrow(/experts is wrong/);
  });

  it('has nothing to say of a step that is left out', () => {
    const { load } = makeLoad(layers[0]!);
    const ranks = {
      sum: () => {
        throw new Error('other ranks are not there');
      },
    };
    const balance = new ExpertBalance({ loads: [load], layers, numExperts: 4, ranks, interval: 1 });
    expect(balance.afterStep(step(1, { isLeftOut: true, skipped: true }))).toEqual([]);
  });
});
