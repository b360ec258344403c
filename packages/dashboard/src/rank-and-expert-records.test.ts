import { describe, expect, it } from 'vitest';
import { ExpertRecords } from './rank-and-expert-records.js';

const names = ['decoder.layers.1.mlp', 'decoder.layers.3.mlp'];

/** Makes a record of ten steps. */
const record = (iteration: number, loads: unknown, more: object = {}) => ({
  type: 'experts',
  iteration,
  steps: 10,
  layers: names,
  loads,
  dropped: [0.25, 0],
  entropy: [1, null],
  ...more,
});

const even = [
  [4, 4],
  [4, 4],
];

describe('ExpertRecords', () => {
  it('has loads relative to an even one: of all layers in the last steps, of one over time', () => {
    const records = new ExpertRecords();
    expect([records.current, records.answer(undefined)]).toEqual([null, undefined]);
    records.add(record(10, even));
    records.add(
      record(20, [
        [2, 6],
        [0, 9],
      ]),
    );
    expect(records.current).toEqual({ iteration: 20, numLayers: 2, numExperts: 2 });
    const answer = records.answer(3)!;
    expect(answer).toEqual({
      layers: [1, 3],
      numExperts: 2,
      newest: {
        first: 11,
        last: 20,
        loads: [
          [0.5, 1.5],
          [0, 2],
        ],
        dropped: [0.25, 0],
        entropy: [1, null],
      },
      layer: 3,
      first: [1, 11],
      last: [10, 20],
      loads: [
        [1, 1],
        [0, 2],
      ],
      dropped: [0, 0],
      entropy: [null, null],
    });
    for (const layer of [undefined, 0, 1]) {
      expect(records.answer(layer)).toMatchObject({
        layer: 1,
        loads: [
          [1, 1],
          [0.5, 1.5],
        ],
      });
    }
  });

  it('says which experts got no tokens, again only when they are others', () => {
    const records = new ExpertRecords();
    const idle = [
      [8, 0],
      [4, 4],
    ];
    expect(records.add(record(10, even))).toBeUndefined();
    expect(records.add(record(20, idle))).toBe('experts that got no tokens: layer 1: 1');
    expect(records.add(record(30, idle))).toBeUndefined();
    expect(records.add(record(40, even))).toBeUndefined();
    expect(records.add(record(50, idle))).toBe('experts that got no tokens: layer 1: 1');
  });

  it('replaces steps that a resumed run computes again, and begins anew for other experts', () => {
    const records = new ExpertRecords();
    for (const iteration of [10, 20, 30, 20]) records.add(record(iteration, even));
    expect(records.answer(1)!.last).toEqual([10, 20]);
    records.add(record(30, [[1, 2, 3]], { layers: [names[0]] }));
    expect(records.answer(1)).toMatchObject({ numExperts: 3, last: [30], loads: [[0.5, 1, 1.5]] });
  });

  it('merges intervals of a long run in pairs, so that all of it is there', () => {
    const records = new ExpertRecords();
    for (let index = 1; index <= 1000; index++) {
      const load = index <= 500 ? [8, 0] : [2, 6];
      records.add(record(10 * index, [load, load], { dropped: [index / 1000, 0] }));
    }
    const { first, last, loads, dropped } = records.answer(1)!;
    expect(first.length).toBeGreaterThan(100);
    expect(first.length).toBeLessThanOrEqual(240);
    expect([first[0], last.at(-1)]).toEqual([1, 10_000]);
    expect(first.slice(1)).toEqual(last.slice(0, -1).map((step) => step + 1));
    expect([loads[0], loads.at(-1)]).toEqual([
      [2, 0],
      [0.5, 1.5],
    ]);
    // the mean of values that rise from 0.001 to 1, weighted by the steps of the intervals
    const steps = last.map((step, at) => step - first[at]! + 1);
    const mean = dropped.reduce((sum: number, share, at) => sum + share! * steps[at]!, 0) / 10_000;
    expect(mean).toBeCloseTo(0.5005, 6);
  });

  it('passes over records of another form', () => {
    const records = new ExpertRecords();
    const wrong = [undefined, [], [[1, 2], [1]], [[1, 2]], [[], []], [[1], 'x']];
    for (const loads of wrong) records.add(record(10, loads));
    records.add(record(10, even, { layers: 'none' }));
    records.add(record(10, [new Array(70_000).fill(1)], { layers: [names[0]] }));
    expect(records.current).toBeNull();
    records.add(
      record(
        10,
        [
          ['x', -1],
          [1, 3],
        ],
        { dropped: 'x', entropy: undefined },
      ),
    );
    expect(records.answer(1)).toMatchObject({ loads: [[0, 0]], dropped: [null], entropy: [null] });
  });
});
