import { configure, type RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { type MeasuredRates, type Operation, parseProfile } from '@mtl/cost-model';
import { beforeAll, describe, expect, it } from 'vitest';
import { planRun } from '../plan/plan-run.js';
import { recordRun } from '../plan/record-run.js';
import { calibratedProfile } from './calibrated-profile.js';
import { measureRates } from './measure-rates.js';
import { referenceRuns } from './reference-runs.js';

const tiny: RunOptions = {
  preset: 'none',
  model: { numLayers: 4, hiddenSize: 64, numAttentionHeads: 4, maxPositionEmbeddings: 32 },
  data: { dataPath: ['bundled'], sequenceLength: 32, tokenizerType: 'NullTokenizer', vocabSize: 999 },
  training: { microBatchSize: 2, trainIterations: 3, globalBatchSize: 8 },
  optimizer: { maxLearningRate: 1e-3 },
};

const sparse: RunOptions['model'] = {
  normalization: 'RMSNorm',
  swiglu: true,
  disableBiasLinear: true,
  numExperts: 4,
  moeFfnHiddenSize: 48,
  moeAuxLossCoeff: [1e-2],
  moeZLossCoeff: 1e-3,
};

const configured = (options: RunOptions, worldSize: number) =>
  configure(mergeOptions(tiny, options), { worldSize });

let rates: MeasuredRates;
beforeAll(async () => {
  const runs = referenceRuns({ extent: 'quick' }).map((run) => ({ ...run, numSteps: 3 }));
  rates = await measureRates({ world: undefined, numThreads: 1, runs, collectiveBytes: [] });
});

describe('measureRates', () => {
  it.each<[RunOptions, number]>([
    [{}, 1],
    [{ training: { bf16: true } }, 1],
    [{ layout: { tensorModelParallelSize: 2, sequenceParallel: true } }, 2],
    [{ layout: { pipelineModelParallelSize: 2, pipelineSchedule: 'zb-h1' } }, 2],
    [{ layout: { useDistributedOptimizer: true }, training: { recomputeGranularity: 'selective' } }, 2],
    [{ model: { normalization: 'RMSNorm', swiglu: true, positionEmbeddingType: 'rope' } }, 1],
    [{ model: sparse }, 1],
    [{ model: sparse, training: { bf16: true } }, 1],
    [{ model: { ...sparse, moeExpertCapacityFactor: 1, moeSharedExpertIntermediateSize: 32 } }, 1],
    [{ model: sparse, layout: { expertModelParallelSize: 2 } }, 2],
    [{ model: { kind: 'bert' } }, 1],
    [{ model: { kind: 'bert' }, layout: { tensorModelParallelSize: 2 } }, 2],
  ])('times every operation of %j', async (options, worldSize) => {
    const configuration = configured(options, worldSize);
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
    const plan = await planRun(configured({}, 1), { profile });
    expect(plan.iterationSeconds).toBeGreaterThan(0);
    expect(plan.capacityBytes).toBe(rates.memoryBytes);
    // a model of this size uses one thread, so the plan contains the scratch memory of one thread
    const oneThread = await recordRun(configured({ layout: { threads: 1 } }, 1), { gpusPerNode: 2 });
    expect(plan.ranks[0]!.memoryBytes).toBe(oneThread.ranks[0]!.peakBytes);
    const { host } = rates;
    // four micro-batches, each with a forward and a backward pass, and the end of a step
    expect(plan.breakdown.host).toBeCloseTo(8 * host!.passSeconds + host!.stepSeconds, 9);
  });
});
