import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { numLiveTensors, openCuda } from '@mtl/kernels';
import { GptStage, numLossTokens, type StageBatch } from '@mtl/models';
import { AdamwOptimizer, LossScaler, NumMicroBatches, ParameterBuffers } from '@mtl/optimizer';
import { Pipeline } from '@mtl/pipeline';
import { oneStage } from '@mtl/pipeline/schedules';
import { type EmulationCounts, emulationCounts, hasEmulationCounts } from '@mtl/tooling/emulation-counts';
import { Trainer } from '@mtl/trainer';
import { afterAll, describe, expect, it, vi } from 'vitest';

const sequenceLength = 16;
const microBatchSize = 2;
const vocabularySize = 50;
const steps = 4;

const model = {
  ...{ numLayers: 2, hiddenSize: 32, ffnHiddenSize: 128, numAttentionHeads: 2 },
  ...{ vocabularySize, makeVocabularySizeDivisibleBy: 16, maxPositionEmbeddings: sequenceLength },
  ...{ hiddenDropout: 0.1, attentionDropout: 0.1, layerNormEpsilon: 1e-5, geluKind: 'tanh' as const },
  ...{ initMethodStd: 0.02, tieEmbeddings: true },
};

function batchOf(number: number): StageBatch {
  const size = microBatchSize * sequenceLength;
  const token = (index: number): number => (number * 7 + index * 3) % vocabularySize;
  return {
    batchSize: microBatchSize,
    sequenceLength,
    tokens: Int32Array.from({ length: size }, (_, index) => token(index)),
    labels: Int32Array.from({ length: size }, (_, index) => token(index + 1)),
    lossMask: new Float32Array(size).fill(1),
    positionIds: Int32Array.from({ length: size }, (_, index) => index % sequenceLength),
    sampleNumbers: Float64Array.from({ length: microBatchSize }, (_, b) => number * microBatchSize + b),
    keyStart: undefined,
  };
}

async function* batches(): AsyncGenerator<StageBatch> {
  for (let number = 0; ; number++) yield batchOf(number);
}

interface Run {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  /** Of each step. */
  readonly counts: readonly EmulationCounts[];
}

async function train(
  device: 'cpu' | 'cuda',
  numMicroBatches: number,
  dtype: 'float32' | 'float16',
): Promise<Run> {
  const stage = new GptStage({ model, device, dtype, seed: 3 });
  const buffers = new ParameterBuffers(stage.parameters, { device, dtype });
  buffers.initialize(3);
  const optimizer = new AdamwOptimizer(buffers, {
    ...{ beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1, clipGradient: 1 },
  });
  const trainer = new Trainer<StageBatch>({
    pipeline: new Pipeline({ stages: new Map([[0, stage]]), schedule: oneStage, dtype, device }),
    ...{ optimizer, device, sequenceLength, flopsPerSample: 1, trainIterations: steps },
    losses: [{ name: 'lm_loss', per: 'token', count: numLossTokens }],
    learningRate: () => 0.01,
    lossScaler: new LossScaler(
      dtype === 'float16' ? { kind: 'dynamic', initialScale: 256 } : { kind: 'constant' },
    ),
    microBatches: new NumMicroBatches({
      ...{ globalBatchSize: microBatchSize * numMicroBatches, microBatchSize, dataParallelSize: 1 },
    }),
    batches: batches(),
  });
  const [losses, norms, counts]: [number[], number[], EmulationCounts[]] = [[], [], []];
  let before = device === 'cuda' ? emulationCounts() : undefined;
  for await (const { lmLoss, gradNorm } of trainer) {
    losses.push(lmLoss);
    norms.push(gradNorm);
    if (before === undefined) continue;
    const now = emulationCounts();
    counts.push(difference(now, before));
    before = now;
  }
  optimizer.dispose();
  buffers.dispose();
  return { losses, norms, counts };
}

function difference(now: EmulationCounts, before: EmulationCounts): EmulationCounts {
  const names = Object.keys(now) as (keyof EmulationCounts)[];
  return Object.fromEntries(
    names.map((name) => [name, now[name] - before[name]]),
  ) as unknown as EmulationCounts;
}

describe.skipIf(!hasEmulationCounts)('ranges for a profiler', () => {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-ranges-'));
  afterAll(() => {
    vi.unstubAllEnvs();
    rmSync(directory, { recursive: true });
  });

  it('are one a step, within it one a micro-batch and pass, within that one an operation', async () => {
    const file = join(directory, 'ranges');
    // read by the library at its first operation
    vi.stubEnv('MTL_NVTX', '1');
    vi.stubEnv('MTL_EMULATION_RANGES', file);
    openCuda();
    await train('cuda', 2, 'float32');
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    // building writes initial values outside of any step
    const ofSteps = lines.slice(lines.indexOf('step 1'));
    const at = (depth: number): string[] =>
      ofSteps.filter((line) => line.search(/\S/) === 2 * depth).map((line) => line.trim());
    expect(at(0)).toEqual(['step 1', 'step 2', 'step 3', 'step 4']);
    const passes = ['F', 'B'].map((kind) => [0, 1].map((batch) => `${kind} micro-batch ${batch}, chunk 0`));
    expect(
      at(2)
        .slice(0, 5)
        .filter((name) => name.includes('micro-batch'))
        .sort(),
    ).toEqual(passes.flat().sort());
    expect(at(1)).toContain('adamw');
    expect(at(3)).toEqual(
      expect.arrayContaining(['matmul', 'linear_gelu_forward', 'cross_entropy_forward_backward']),
    );
  });
});

describe.skipIf(!hasEmulationCounts)('a step of a training on an emulated CUDA device', () => {
  it.each([
    [1, 'float32'],
    [3, 'float32'],
    [3, 'float16'],
  ] as const)(
    'with %i micro-batches in %s waits for the device once, to read all figures at once',
    async (numMicroBatches, dtype) => {
      const live = numLiveTensors();
      openCuda();
      const { counts } = await train('cuda', numMicroBatches, dtype);
      // the first steps take memory from the driver and choose algorithms
      const { kernels, ...settled } = counts.at(-1)!;
      expect(settled).toEqual({
        synchronizations: 1,
        copiesToHost: 1,
        // tokens, positions, labels, weights and sample numbers of each micro-batch, and nothing for the optimizer
        copiesToDevice: 5 * numMicroBatches,
        memoryCalls: 0,
      });
      expect(counts.at(-2)).toEqual(counts.at(-1));
      expect(kernels).toBeGreaterThan(0);
      expect(numLiveTensors()).toBe(live);
    },
  );

  it("has the CPU's losses and gradient norms", async () => {
    openCuda();
    const [cuda, cpu] = [await train('cuda', 2, 'float32'), await train('cpu', 2, 'float32')];
    for (let step = 0; step < steps; step++) {
      // float32 in another order: the bound of the design for layouts is 2e-6 and 2e-5 over 100 steps
      expect(Math.abs(cuda.losses[step]! / cpu.losses[step]! - 1)).toBeLessThan(2e-6);
      expect(Math.abs(cuda.norms[step]! / cpu.norms[step]! - 1)).toBeLessThan(2e-5);
    }
  });
});
