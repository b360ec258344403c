import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ShardedStepsArgument, ShardedStepsResult } from './ranks/sharded-steps.js';

const base: ShardedStepsArgument = {
  dtype: 'float32',
  tp: 1,
  dp: 1,
  distributed: false,
  overlap: false,
  numSteps: 6,
  // a few buckets of one to two parameters
  bucketBytes: 300,
};

/** Returns the results of some runs, one after the other on the same ranks: by run, then by rank. */
async function run(
  layout: { readonly tp: number; readonly dp: number },
  changes: ReadonlyArray<Partial<ShardedStepsArgument>>,
): Promise<ShardedStepsResult[][]> {
  const ranks = await runInMemoryRanks<ShardedStepsResult[]>({
    worldSize: layout.tp * layout.dp,
    ...rankThreads(new URL('./ranks/sharded-steps.ts', import.meta.url)),
    argument: changes.map((change) => ({ ...base, ...layout, ...change })),
  });
  return changes.map((_, index) => ranks.map((results) => results[index]!));
}

let alone: { readonly float32: ShardedStepsResult; readonly bfloat16: ShardedStepsResult };
beforeAll(async () => {
  const [float32, bfloat16] = await run({ tp: 1, dp: 1 }, [{}, { dtype: 'bfloat16' }]);
  alone = { float32: float32![0]!, bfloat16: bfloat16![0]! };
});

/** Returns the model assembled from all ranks, by parameter; replicas must agree bit for bit. */
function wholeModel(ranks: readonly ShardedStepsResult[]): number[][] {
  const whole: number[][] = ranks[0]!.model.map(() => []);
  for (const { model } of ranks) {
    model.forEach((values, parameter) => {
      for (const [position, value] of values) {
        const known = whole[parameter]![position];
        if (known !== undefined) expect(value).toBe(known);
        whole[parameter]![position] = value;
      }
    });
  }
  return whole;
}

/**
 * Returns the largest relative difference of norms, and the largest difference of model values, from one
 * process.
 */
function differences(ranks: readonly ShardedStepsResult[], alone: ShardedStepsResult) {
  const norms = ranks.flatMap(({ norms }) =>
    norms.map((norm, step) => Math.abs(norm / alone.norms[step]! - 1)),
  );
  const expected = wholeModel([alone]);
  const values = wholeModel(ranks).flatMap((all, parameter) =>
    all.map((value, position) => Math.abs(value - expected[parameter]![position]!)),
  );
  return { norm: Math.max(...norms), model: Math.max(...values) };
}

const layouts = [
  { tp: 1, dp: 2 },
  { tp: 1, dp: 4 },
  { tp: 2, dp: 1 },
  { tp: 2, dp: 2 },
];
const kinds = [
  { distributed: false, overlap: false },
  { distributed: false, overlap: true },
  { distributed: true, overlap: false },
  { distributed: true, overlap: true },
];
// gradients are float32 sums of up to eight parts; Adam divides by their size, so the update of 0.01 keeps
// that rounding
const tolerance = { norm: 1e-6, model: 1e-6 };

const bfloat16Kinds = [
  { dtype: 'bfloat16' },
  { dtype: 'bfloat16', distributed: true, overlap: true },
] as const;

describe.each(layouts)('AdamW over %o', (layout) => {
  let results: ShardedStepsResult[][];
  let ofBfloat16: ShardedStepsResult[][];
  beforeAll(async () => {
    const runs = await run(layout, [...kinds, ...bfloat16Kinds]);
    [results, ofBfloat16] = [runs.slice(0, kinds.length), runs.slice(kinds.length)];
  });

  it('does what one process does, bitwise the same whether distributed or overlapped', () => {
    for (const ranks of results) {
      const difference = differences(ranks, alone.float32);
      expect(difference.norm).toBeLessThan(tolerance.norm);
      expect(difference.model).toBeLessThan(tolerance.model);
      expect(ranks.every(({ gradientsAreClear }) => gradientsAreClear)).toBe(true);
    }
    // reduce and reduce-scatter add in rank order, norms add the same slices, updates are elementwise: the
    // same bits
    for (const ranks of results.slice(1)) {
      expect(ranks.map(({ norms }) => norms)).toEqual(results[0]!.map(({ norms }) => norms));
      expect(ranks.map(({ modelBits }) => modelBits)).toEqual(results[0]!.map(({ modelBits }) => modelBits));
    }
  });

  it('gives all data-parallel ranks the same bfloat16 model', () => {
    const [plain, ...others] = ofBfloat16;
    for (const ranks of others)
      expect(ranks.map(({ modelBits }) => modelBits)).toEqual(plain!.map(({ modelBits }) => modelBits));
    // one unit in the last place of bfloat16 for values below 4, for a master value between two bfloat16
    // values
    expect(differences(plain!, alone.bfloat16).model).toBeLessThanOrEqual(2 ** -6);
  });
});

const dividedGradients = ['zero2', 'fullySharded'] as const;

describe.each(
  dividedGradients.flatMap((kind) => [...layouts, { tp: 1, dp: 3 }].map((layout) => ({ kind, layout }))),
)('AdamW over a store of divided gradients, %o', ({ kind, layout }) => {
  let [float32, once, onceDistributed, bfloat16]: ShardedStepsResult[][] = [];
  beforeAll(async () => {
    const one = { numMicroBatches: 1 };
    [float32, once, onceDistributed, bfloat16] = await run(layout, [
      { kind },
      { kind, ...one },
      { distributed: true, ...one },
      { kind, dtype: 'bfloat16' },
    ]);
  });

  it('does what one process does', () => {
    for (const ranks of [float32!, once!]) {
      const difference = differences(ranks, alone.float32);
      expect(difference.norm).toBeLessThan(tolerance.norm);
      expect(difference.model).toBeLessThan(tolerance.model);
      expect(ranks.every(({ gradientsAreClear }) => gradientsAreClear)).toBe(true);
    }
    // one unit in the last place of bfloat16 for values below 4
    expect(differences(bfloat16!, alone.bfloat16).model).toBeLessThanOrEqual(2 ** -6);
  });

  it('adds as the distributed optimizer does where a step has one micro-batch', () => {
    const norms = once!.map((rank) =>
      rank.norms.map((norm, step) => norm / onceDistributed![0]!.norms[step]!),
    );
    // squares of slices of units are added instead of slices of buckets, in other lanes of float32
    for (const ratio of norms.flat()) expect(Math.abs(ratio - 1)).toBeLessThan(1e-8);
    expect(once!.map(({ modelBits }) => modelBits)).toEqual(
      onceDistributed!.map(({ modelBits }) => modelBits),
    );
  });

  it('starts a reduction for every unit of every micro-batch', () => {
    const { trace } = float32![0]!;
    const numReduced = trace
      .slice(0, trace.indexOf('step'))
      .filter((event) => event === 'reduce starts').length;
    expect(numReduced).toBe(layout.dp === 1 ? 0 : 2 * 3);
  });
});

const divided = ['zero1', ...dividedGradients] as const;

describe.each([
  { tp: 1, dp: 4 },
  { tp: 2, dp: 4 },
  // each rank is an instance
  { tp: 1, dp: 2 },
])('AdamW over two instances, %o', (layout) => {
  const numInstances = 2;
  let results: ShardedStepsResult[][];
  beforeAll(async () => {
    const hybrid = divided.map((kind) => ({ kind, numInstances }));
    results = await run(layout, [
      ...hybrid,
      ...hybrid.map((each) => ({ ...each, overlap: true })),
      ...hybrid.map((each) => ({ ...each, dtype: 'bfloat16' as const })),
    ]);
  });

  it.each(divided)('does what one process does, with the same bits in all instances: %s', (kind) => {
    const index = divided.indexOf(kind);
    const [float32, overlapped, bfloat16] = [0, 1, 2].map((of) => results[of * divided.length + index]!);
    const difference = differences(float32!, alone.float32);
    expect(difference.norm).toBeLessThan(tolerance.norm);
    expect(difference.model).toBeLessThan(tolerance.model);
    expect(float32!.every(({ gradientsAreClear }) => gradientsAreClear)).toBe(true);
    expect(overlapped!.map(({ norms, modelBits }) => ({ norms, modelBits }))).toEqual(
      float32!.map(({ norms, modelBits }) => ({ norms, modelBits })),
    );
    // one unit in the last place of bfloat16 for values below 4
    expect(differences(bfloat16!, alone.bfloat16).model).toBeLessThanOrEqual(2 ** -6);
  });

  it('sums each owned range over instances once in a step, after all micro-batches', () => {
    for (const [{ trace, numOwned }] of results as [ShardedStepsResult][]) {
      const sums = trace
        .slice(0, trace.indexOf('forward'))
        .flatMap((event, index) => (event === 'sum over instances starts' ? [index] : []));
      expect(sums).toHaveLength(numOwned);
      expect(Math.min(...sums)).toBeGreaterThan(trace.indexOf('step'));
      const lastReduction = trace.slice(0, trace.indexOf('forward')).lastIndexOf('reduce is waited for');
      expect(Math.min(...sums)).toBeGreaterThan(lastReduction);
    }
  });
});

describe('a gradient that is not finite on one rank', () => {
  it('is a skipped step on all', async () => {
    const ofKinds = [...kinds, ...dividedGradients.map((kind) => ({ kind }))];
    const inInstances = divided.map((kind) => ({ kind, numInstances: 2 }));
    const results = await run(
      { tp: 2, dp: 2 },
      [...ofKinds, ...inInstances].map((each) => ({ ...each, overflowAt: 3 })),
    );
    for (const ranks of results) {
      for (const { skipped, norms } of ranks) {
        expect(skipped).toEqual([false, false, true, false, false, false]);
        expect(norms[2]).toBe(Number.POSITIVE_INFINITY);
        expect(norms).toEqual(ranks[0]!.norms);
      }
    }
  });
});

describe('overlap', () => {
  let [inTurn, overlapped, ending]: ShardedStepsResult[][] = [];
  beforeAll(async () => {
    const one = { distributed: true, numSteps: 1 };
    [inTurn, overlapped, ending] = await run({ tp: 1, dp: 2 }, [
      { ...one, overlap: false },
      { ...one, overlap: true },
      { ...one, overlap: true, endsAfterStep: true },
    ]);
  });

  it.each([false, true])('with %s: where operations start and where they are waited for', (overlap) => {
    const { trace } = (overlap ? overlapped : inTurn)![0]!;
    const buckets = trace.filter((event) => event === 'reduce starts').length;
    expect(buckets).toBeGreaterThan(2);
    const count = (event: string, from: string, to?: string): number =>
      trace
        .slice(trace.indexOf(from), to === undefined ? undefined : trace.indexOf(to))
        .filter((other) => other === event).length;
    expect(count('reduce starts', 'backward', 'step')).toBe(overlap ? buckets : 0);
    expect(count('reduce is waited for', 'backward', 'step')).toBe(0);
    expect(count('reduce is waited for', 'step', 'forward')).toBe(buckets);
    expect(count('gather starts', 'step', 'forward')).toBe(buckets);
    expect(count('gather is waited for', 'step', 'forward')).toBe(overlap ? 0 : buckets);
    // forward reads every parameter: each waits for its bucket
    expect(count('gather is waited for', 'forward')).toBeGreaterThanOrEqual(buckets);
  });

  it('lets no gather go on in buffers that are freed', () => {
    for (const { trace } of ending!) {
      const count = (name: string): number => trace.filter((event) => event === name).length;
      expect(count('gather starts')).toBeGreaterThan(2);
      expect(count('gather is waited for')).toBe(count('gather starts'));
    }
  });
});

describe('a distributed optimizer', () => {
  it('holds master values and moments of its slices only', async () => {
    const dtypes = ['float32', 'bfloat16'] as const;
    const runs = await run(
      { tp: 1, dp: 4 },
      dtypes.flatMap((dtype) => [false, true].map((distributed) => ({ dtype, numSteps: 0, distributed }))),
    );
    for (const [index, dtype] of dtypes.entries()) {
      const [plain, distributed] = runs.slice(2 * index);
      const sizes = plain![0]!.stateSizes;
      for (const { stateSizes } of distributed!) expect(stateSizes).toEqual(sizes.map((size) => size / 4));
      // the allocator holds less for all four ranks: three quarters of the moments (and of 16-bit models'
      // masters)
      const saved = (dtype === 'float32' ? 2 : 3) * 4 * 3 * sizes[0]!;
      const measured = plain![0]!.bytesInUse - distributed![0]!.bytesInUse;
      // segments of four buckets, in blocks of 64 bytes and more, are a few percent of these small tensors
      expect(Math.abs(measured - saved)).toBeLessThan(0.2 * saved);
    }
  });
});

describe('a store that keeps the values of others only while they are used', () => {
  it('refuses reads of a parameter outside of its units', async () => {
    await expect(run({ tp: 1, dp: 2 }, [{ kind: 'fullySharded', forgetUnit: true }])).rejects.toThrow(
      'table is read outside of its units',
    );
  });
});

describe('what breaks the optimizer is seen', () => {
  it.each<[string, { tp: number; dp: number }, ReadonlyArray<Partial<ShardedStepsArgument>>]>([
    ['a reduction of one bucket that is lost', { tp: 1, dp: 2 }, [{ lostReduction: 0 }]],
    [
      'replicated parameters that are counted on every rank, and parts of gradients that are not summed',
      { tp: 2, dp: 1 },
      [{ countTwice: true }, { forgetPartial: true }],
    ],
    [
      'instances that are not summed, or are counted in the norm',
      { tp: 1, dp: 4 },
      divided.flatMap((kind) => [
        { kind, numInstances: 2, forgetInstances: true },
        { kind, numInstances: 2, countInstances: true },
      ]),
    ],
  ])('%s', async (_, layout, changes) => {
    const runs = await run(layout, changes);
    expect(runs).toHaveLength(changes.length);
    for (const ranks of runs)
      expect(differencesOrDisagreement(ranks, alone.float32)).toBeGreaterThan(100 * tolerance.norm);
  });
});

/** Returns `differences`; infinite when ranks that must agree do not. */
function differencesOrDisagreement(ranks: readonly ShardedStepsResult[], alone: ShardedStepsResult): number {
  try {
    return differences(ranks, alone).norm;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
