import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Checkpoint } from '@mtl/checkpoint';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainBigramsArgument, TrainBigramsResult } from './ranks/train-bigrams.js';
import { StandingRanks } from './support/standing-ranks.js';

const base: TrainBigramsArgument = {
  dp: 1,
  distributed: false,
  overlap: false,
  dtype: 'float32',
  trainIterations: 20,
};

let ranksOfAll: StandingRanks<TrainBigramsArgument, TrainBigramsResult>;

const run = (change: Partial<TrainBigramsArgument>): Promise<TrainBigramsResult[]> => {
  const argument = { ...base, ...change };
  return ranksOfAll.run(argument.dp, argument);
};

/** Returns the largest relative differences of loss, gradient norm and validation loss from one process. */
function differences(ranks: readonly TrainBigramsResult[], alone: TrainBigramsResult) {
  const relative = (actual: readonly number[], expected: readonly number[]): number => {
    expect(actual.length).toBe(expected.length);
    return Math.max(...actual.map((value, index) => Math.abs(value / expected[index]! - 1)));
  };
  const largest = (of: (result: TrainBigramsResult) => readonly number[]): number =>
    Math.max(...ranks.map((rank) => relative(of(rank), of(alone))));
  return {
    loss: largest(({ steps }) => steps.map(({ loss }) => loss)),
    norm: largest(({ steps }) => steps.map(({ gradNorm }) => gradNorm)),
    validation: largest(({ validation }) => validation),
  };
}

// the bounds of parity between layouts in float32 (packages/runs/parity/layouts.mjs), where rounding was
// measured ten times smaller
const tolerance = { loss: 2e-6, norm: 2e-5 };
const kinds = [
  { distributed: false, overlap: false },
  { distributed: false, overlap: true },
  { distributed: true, overlap: false },
  { distributed: true, overlap: true },
];

let alone: TrainBigramsResult;
let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-data-parallel-'));
  ranksOfAll = new StandingRanks(new URL('./ranks/train-bigrams.ts', import.meta.url), 4);
  [alone] = (await run({})) as [TrainBigramsResult];
});
afterAll(async () => {
  await ranksOfAll.stop();
  rmSync(directory, { recursive: true, force: true });
});

describe.each([2, ...inWholeRuns(4)])('training on %d data-parallel ranks', (dp) => {
  it('gives the losses, norms and validation losses of one process', async () => {
    expect(alone.steps[0]!.loss - alone.steps.at(-1)!.loss).toBeGreaterThan(0.5);
    let first: TrainBigramsResult[] | undefined;
    for (const kind of kinds) {
      const ranks = await run({ dp, ...kind });
      const difference = differences(ranks, alone);
      expect(difference.loss).toBeLessThan(tolerance.loss);
      expect(difference.norm).toBeLessThan(tolerance.norm);
      expect(difference.validation).toBeLessThan(tolerance.loss);
      // the loss of the first step is the sum of the same numbers in the same order
      expect(ranks.map(({ steps }) => steps[0]!.loss)).toEqual(ranks.map(() => alone.steps[0]!.loss));
      first ??= ranks;
      expect(ranks.map(({ modelBits }) => modelBits)).toEqual(first.map(() => first![0]!.modelBits));
    }
  });
});

describe('an optimizer that no package knows', () => {
  it.each([
    { dtype: 'float32', distributed: false, overlap: false },
    { dtype: 'bfloat16', distributed: true, overlap: true },
  ] as const)('trains, saves and resumes on two ranks: %o', async (kind) => {
    const rule = { momentum: 0.5, dtype: kind.dtype, trainIterations: 6 };
    const [one] = (await run(rule)) as [TrainBigramsResult];
    expect(one.steps[0]!.loss - one.steps.at(-1)!.loss).toBeGreaterThan(0.01);
    const two = { ...rule, ...kind, dp: 2 };
    const straight = await run(two);
    // bfloat16 rounds to 3 digits: sums in another order may round a weight up instead of down
    expect(differences(straight, one).loss).toBeLessThan(kind.dtype === 'float32' ? tolerance.loss : 1e-3);
    const save = join(directory, `momentum-${kind.dtype}`);
    await run({ ...two, trainIterations: 3, save });
    const checkpoint = await Checkpoint.open(join(save, 'iter_0000003'));
    expect([...checkpoint.tensors.keys()].toSorted()).toEqual(['head', 'optimizer.momentum.head']);
    const resumed = await run({ ...two, load: save });
    expect(resumed[0]!.steps.map(({ loss }) => loss)).toEqual(
      straight[0]!.steps.slice(3).map(({ loss }) => loss),
    );
    expect(resumed.map(({ modelBits }) => modelBits)).toEqual(straight.map(({ modelBits }) => modelBits));
  });
});

describe('ranks of a training run', () => {
  it.each(kinds)('stop after the same step when one rank gets a signal: %o', async (kind) => {
    const save = join(directory, `signal-${kind.distributed}-${kind.overlap}`);
    const ranks = await run({ dp: 2, ...kind, save, signalAt: { rank: 1, iteration: 3 } });
    for (const { result, steps } of ranks) {
      expect(result).toEqual({ reason: 'SIGTERM', checkpointPath: join(save, 'iter_0000003') });
      expect(steps.length).toBe(3);
    }
  });

  it('stop together when the data of one rank end', async () => {
    const ranks = await run({ dp: 2, dataEnd: { rank: 0, microBatches: 10 } });
    // two whole steps of four micro-batches a rank
    for (const { result, steps } of ranks) {
      expect(result.reason).toBe('data');
      expect(steps.length).toBe(2);
    }
  });
});

describe('checkpoints', () => {
  const readShards = (path: string, iteration: string): string[] =>
    readdirSync(join(path, iteration))
      .filter((name) => name.endsWith('.safetensors'))
      .map((name) => readFileSync(join(path, iteration, name)).toString('base64'));

  it.each(['bfloat16', ...inWholeRuns('float32' as const)] as const)(
    'go from 4 ranks to 1 and back, exactly: %s',
    async (dtype) => {
      const at = (name: string): string => join(directory, `${name}-${dtype}`);
      const four = { dtype, dp: 4, distributed: true, overlap: true };
      await run({ ...four, trainIterations: 6, save: at('four') });
      await run({ dtype, trainIterations: 6, load: at('four'), save: at('one') });
      await run({ ...four, trainIterations: 6, load: at('one'), save: at('back') });
      expect(readShards(at('one'), 'iter_0000006').length).toBe(1);
      const shards = readShards(at('four'), 'iter_0000006');
      // 576 values and padding: all ranks but the last hold some
      expect(shards.length).toBe(3);
      expect(readShards(at('back'), 'iter_0000006')).toEqual(shards);
    },
  );

  it('let a run go on in another layout, twice', { tags: ['whole'] }, async () => {
    const at = (name: string): string => join(directory, `layout-${name}`);
    const parts = [
      await run({ dp: 4, distributed: true, overlap: true, trainIterations: 7, save: at('a') }),
      await run({ dp: 2, trainIterations: 13, load: at('a'), save: at('b') }),
      await run({ dp: 1, trainIterations: 20, load: at('b') }),
    ];
    const joined = { ...alone, steps: parts.flatMap((ranks) => ranks[0]!.steps), validation: [] };
    const difference = differences([joined], { ...alone, validation: [] });
    expect(difference.loss).toBeLessThan(tolerance.loss);
    expect(difference.norm).toBeLessThan(tolerance.norm);
  });

  it('are written by all ranks in turns where all hold everything, each tensor once', async () => {
    const save = join(directory, 'turns');
    await run({ dp: 2, trainIterations: 2, save });
    expect(readShards(save, 'iter_0000002').length).toBeGreaterThan(0);
    const [again] = await run({ trainIterations: 2, load: save });
    expect(again!.steps.length).toBe(0);
  });
});

describe('what breaks data parallelism is seen', () => {
  it.each<[string, Partial<TrainBigramsArgument>]>([
    ['a token count that is too small on one rank', { shrinkTokenCount: true }],
    ['ranks that read the same samples', { sameSamples: true }],
  ])('%s', async (_, change) => {
    const { loss } = differences(await run({ dp: 2, ...change }), alone);
    expect(loss).toBeGreaterThan(100 * tolerance.loss);
  });
});
