import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hasEmulationCounts } from '@mtl/cuda-emulation/counts';
import { numLiveTensors } from '@mtl/kernels';
import { findGpu, openCuda } from '@mtl/kernels/internal';
import { afterAll, describe, expect, it, vi } from 'vitest';
import {
  tinyGpt as model,
  tinyAdapters,
  tinyExperts,
  tinyGptWithoutDropout,
  tinyLlama,
} from './tiny-models.js';
import { tinyTraining } from './tiny-training.js';

const steps = 4;
const { problem, title } = findGpu();

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
    await tinyTraining({ model, device: 'cuda', numMicroBatches: 2, steps });
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

describe.skipIf(!hasEmulationCounts)('a step of a training run on an emulated CUDA device', () => {
  it.each([
    [1, 'float32'],
    [3, 'float32'],
    [3, 'float16'],
  ] as const)(
    'with %i micro-batches in %s waits for the device once, to read all metrics at once',
    async (numMicroBatches, dtype) => {
      const live = numLiveTensors();
      openCuda();
      const { counts } = await tinyTraining({ model, device: 'cuda', numMicroBatches, dtype, steps });
      // the first steps take memory from the driver and choose algorithms
      const { kernels, enqueued, ...settled } = counts.at(-1)!;
      expect(settled).toEqual({
        synchronizations: 1,
        copiesToHost: 1,
        // copies of each micro-batch: tokens, position ids, labels, weights, sample numbers, and the position
        // and the sample number of every row; the optimizer copies nothing
        copiesToDevice: 7 * numMicroBatches,
        memoryCalls: 0,
        graphLaunches: 0,
      });
      expect(enqueued).toBeGreaterThan(kernels);
      expect(counts.at(-2)).toEqual(counts.at(-1));
      expect(kernels).toBeGreaterThan(0);
      expect(numLiveTensors()).toBe(live);
    },
  );
});

describe.skipIf(problem !== undefined)(`a training run on device cuda (${title})`, () => {
  it.each([
    ['a GPT', model],
    ['a GPT without dropout', tinyGptWithoutDropout],
    ['a Llama', tinyLlama],
    ['adapters of a Llama', tinyAdapters],
    ['a mixture of experts', tinyExperts],
  ] as const)("of %s has the CPU's losses and gradient norms", async (_, trained) => {
    openCuda();
    const options = { model: trained, numMicroBatches: 2, steps };
    const cuda = await tinyTraining({ ...options, device: 'cuda' });
    const cpu = await tinyTraining({ ...options, device: 'cpu' });
    for (let step = 0; step < steps; step++) {
      // sums of float32 in another order: the bounds between layouts are 2e-6 (loss) and 2e-5 (norm)
      // over 100 steps
      expect(Math.abs(cuda.losses[step]! / cpu.losses[step]! - 1)).toBeLessThan(2e-6);
      expect(Math.abs(cuda.norms[step]! / cpu.norms[step]! - 1)).toBeLessThan(2e-5);
    }
  });
});
