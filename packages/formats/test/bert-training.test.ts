import { allocateParameters } from '@mtl/autograd';
import { numLiveTensors } from '@mtl/kernels';
import { BertStage } from '@mtl/models';
import type { StageLoss } from '@mtl/pipeline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readHuggingFaceBert } from '../src/index.js';
import { batchOfFixture, type FixtureBatch, fixturePath, loadBert, readFixture } from './bert-fixture.js';
import { descend, padded, readTensors } from './support/training-fixture.js';

interface Curve {
  readonly masked: readonly number[];
  readonly order: readonly number[];
  readonly gradientNorms: readonly number[];
}

const fixture = readFixture<{
  readonly recipe: { readonly learningRate: number; readonly warmup: number; readonly clip: number };
  readonly batches: readonly FixtureBatch[];
  readonly post: Curve;
  readonly pre: Curve;
}>('bert-training/training.json.gz');

let live: number;
beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(live));

async function preLayerNormBert(): Promise<{ stage: BertStage; dispose: () => void }> {
  const { configuration } = await readHuggingFaceBert({
    directory: fixturePath('huggingface-bert'),
    makeVocabularySizeDivisibleBy: 16,
  });
  const model = {
    ...configuration,
    layerNormPlacement: 'pre',
    hiddenDropout: 0,
    attentionDropout: 0,
  } as const;
  const stage = new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 1 });
  const storage = allocateParameters(stage.parameters, {
    device: 'cpu',
    dtype: 'float32',
    mainGradients: true,
  });
  const initial = await readTensors(fixturePath('bert-training/pre.safetensors'), 'initial.');
  expect(stage.parameters.map(({ name }) => name).sort()).toEqual([...initial.keys()].sort());
  for (const parameter of stage.parameters)
    parameter.data.write(padded(parameter, initial.get(parameter.name)!));
  return { stage, dispose: () => storage.dispose() };
}

/** The mean of each kind of loss; disposes of the losses. */
function means(losses: readonly StageLoss[]): number[] {
  return losses.map(({ losses: values, weights, dispose }) => {
    const factors = weights.toArray();
    const mean = values.toArray().reduce((sum, value, index) => sum + value * factors[index]!, 0);
    dispose();
    return mean;
  });
}

describe.each(['post', 'pre'] as const)('a BERT with layer norm %s sublayers', (placement) => {
  it('trains as PyTorch does, from the same weights and batches', async () => {
    const { stage, dispose } =
      placement === 'post'
        ? await loadBert(fixturePath('huggingface-bert'), { mainGradients: true })
        : await preLayerNormBert();
    const expectedGradients = await readTensors(
      fixturePath(`bert-training/${placement}.safetensors`),
      'gradient.',
    );
    const { recipe, batches, [placement]: expected } = fixture;
    batches.forEach((values, step) => {
      const batch = batchOfFixture(values);
      for (const { mainGradient } of stage.parameters) mainGradient.zero();
      const lossFactors = { lm_loss: 1 / batch.numMasked, sop_loss: 1 / batch.batchSize };
      stage.forward({ microBatch: 0, batch, lossFactors });
      stage.backwardInput({ microBatch: 0, weights: true });
      const [masked, order] = means(stage.takeLosses(0)) as [number, number];
      let squares = 0;
      for (const parameter of stage.parameters) {
        const gradient = parameter.mainGradient.read<'float32'>();
        const square = gradient.reduce((sum, value) => sum + value * value, 0);
        squares += square;
        if (step === 0) {
          const reference = padded(parameter, expectedGradients.get(parameter.name)!);
          const distance = Math.hypot(...gradient.map((value, index) => value - reference[index]!));
          // the bound of the design for every parameter's gradient at step 1
          expect(distance, parameter.name).toBeLessThan(1e-5 * Math.hypot(...reference));
        }
      }
      const norm = Math.sqrt(squares);
      const rate =
        recipe.learningRate *
        Math.min(1, (step + 1) / recipe.warmup) *
        Math.min(1, recipe.clip / (norm + 1e-6));
      for (const { data, mainGradient } of stage.parameters) descend(data, mainGradient, rate);
      // the bounds of the design against PyTorch in float32: 1e-5 and 1e-4 relative
      const total = expected.masked[step]! + expected.order[step]!;
      expect(Math.abs(masked - expected.masked[step]!) / total, `step ${step}`).toBeLessThan(1e-5);
      expect(Math.abs(order - expected.order[step]!) / total, `step ${step}`).toBeLessThan(1e-5);
      const expectedNorm = expected.gradientNorms[step]!;
      expect(Math.abs(norm - expectedNorm) / expectedNorm, `step ${step}`).toBeLessThan(1e-4);
    });
    const total = (step: number): number => expected.masked[step]! + expected.order[step]!;
    const last = Array.from({ length: 10 }, (_, index) => total(batches.length - 1 - index));
    // the recipe learns: half a nat or more
    expect(total(0) - last.reduce((sum, value) => sum + value, 0) / last.length).toBeGreaterThan(0.5);
    dispose();
  });
});
