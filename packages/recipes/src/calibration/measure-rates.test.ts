import { type ModelKind, parseFlags, validateConfiguration } from '@mtl/configuration';
import { type MeasuredRates, type Operation, parseProfile } from '@mtl/planner';
import { beforeAll, describe, expect, it } from 'vitest';
import { planRun } from '../plan/plan-run.js';
import { recordRun } from '../plan/record-run.js';
import { calibratedProfile } from './calibrated-profile.js';
import { measureRates } from './measure-rates.js';
import { referenceRuns } from './reference-runs.js';

const tiny = [
  ...['--preset', 'none', '--num-layers', '4', '--hidden-size', '64', '--num-attention-heads', '4'],
  ...['--seq-length', '32', '--max-position-embeddings', '32', '--micro-batch-size', '2', '--lr', '1e-3'],
  ...['--train-iters', '3', '--tokenizer-type', 'NullTokenizer', '--vocab-size', '999'],
  ...['--global-batch-size', '8'],
];
const llama = ['--normalization', 'RMSNorm', '--swiglu', '--position-embedding-type', 'rope'];

function configured(model: ModelKind, flags: readonly string[], worldSize: number) {
  const unused = { 'data-path': ['bundled'] };
  return validateConfiguration(parseFlags([...tiny, ...flags], { model, unused }), { worldSize });
}

let rates: MeasuredRates;
beforeAll(async () => {
  const runs = referenceRuns({ isQuick: true }).map((run) => ({ ...run, numSteps: 3 }));
  rates = await measureRates({ world: undefined, numThreads: 1, runs });
});

describe('measureRates', () => {
  it.each<[ModelKind, string, number]>([
    ['gpt', '', 1],
    ['gpt', '--bf16', 1],
    ['gpt', '--tensor-model-parallel-size 2 --sequence-parallel', 2],
    ['gpt', '--pipeline-model-parallel-size 2 --pipeline-schedule zb-h1', 2],
    ['gpt', '--use-distributed-optimizer --recompute-granularity selective', 2],
    ['gpt', llama.join(' '), 1],
    ['bert', '', 1],
    ['bert', '--tensor-model-parallel-size 2', 2],
  ])('times every operation of a %s %s', async (model, flags, worldSize) => {
    const configuration = configured(model, flags.split(' ').filter(Boolean), worldSize);
    const { step } = await recordRun(configuration, { gpusPerNode: 2 });
    const names = new Set(
      [...rates.matmuls, ...rates.attention, ...rates.kernels].map(({ name, dtype }) => `${name} ${dtype}`),
    );
    const operations: Operation[] = [
      ...step.chunks.flatMap((passes) => Object.values(passes).flat()),
      ...step.ends.flatMap((end) => end.operations),
    ];
    const missing = operations.filter(
      (operation) => 'dtype' in operation && !names.has(`${operation.name} ${operation.dtype}`),
    );
    expect(missing).toEqual([]);
    expect(operations.length).toBeGreaterThan(20);
  });

  it('gives a profile with which a run on this machine is planned', async () => {
    const measured = calibratedProfile({ rates: [rates], numProcesses: 2, measuredAt: new Date(0) });
    const profile = parseProfile(JSON.parse(JSON.stringify(measured)));
    const plan = await planRun(configured('gpt', [], 1), { profile });
    expect(plan.iterationSeconds).toBeGreaterThan(0);
    expect(plan.capacityBytes).toBe(rates.memoryBytes);
    // a model of this size gets one thread, and the scratch of one
    const oneThread = await recordRun(configured('gpt', ['--threads', '1'], 1), { gpusPerNode: 2 });
    expect(plan.ranks[0]!.memoryBytes).toBe(oneThread.ranks[0]!.peakBytes);
    const { host } = rates;
    // four micro-batches, forward and backward, and one end
    expect(plan.breakdown.host).toBeCloseTo(8 * host!.passSeconds + host!.stepSeconds, 9);
  });
});
