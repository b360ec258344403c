import { fileURLToPath } from 'node:url';
import { SafetensorsFile } from '@mtl/checkpoint';
import { Tensor } from '@mtl/kernels';
import { numLossTokens } from '@mtl/models';
import { describe, expect, it } from 'vitest';
import {
  bounds,
  build,
  fixture,
  lossDistance,
  makeBatch,
  normDistance,
  recipe,
  type Tamper,
  train,
} from './parity-training.js';

/**
 * Returns the distance |gradient - PyTorch's| / |PyTorch's| of every parameter, after one forward and
 * backward in float32.
 */
async function gradientDistances(tamper?: Tamper): Promise<Map<string, number>> {
  const run = build({ dtype: 'float32' });
  const batch = makeBatch(0);
  run.stage.forward({ microBatch: 0, batch, lossFactors: { lm_loss: 1 / numLossTokens(batch) } });
  run.stage.backwardInput({ microBatch: 0, weights: true });
  for (const loss of run.stage.takeLosses(0)) loss.dispose();
  tamper?.(run);
  const file = await SafetensorsFile.open(
    fileURLToPath(new URL('../fixtures/gpt-parity.safetensors', import.meta.url)),
  );
  const distances = new Map<string, number>();
  for (const { name, mainGradient } of run.stage.parameters) {
    const bytes = await file.read({ name });
    const expected = new Float32Array(
      bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength),
    );
    const actual = mainGradient.read<'float32'>();
    let [difference, norm] = [0, 0];
    for (let index = 0; index < actual.length; index++) {
      // padded rows of the vocabulary have no counterpart: their gradient must be zero
      difference += (actual[index]! - (expected[index] ?? 0)) ** 2;
      norm += (expected[index] ?? 0) ** 2;
    }
    distances.set(name, Math.sqrt(difference / norm));
  }
  await file.close();
  run.dispose();
  return distances;
}

/** Multiplies the main gradients of the parameters whose name ends with the suffix. */
function scaleGradients(suffix: string, factor: number): Tamper {
  return ({ stage }) => {
    for (const { name, mainGradient } of stage.parameters) {
      if (name.endsWith(suffix))
        mainGradient.write(mainGradient.read<'float32'>().map((value) => value * factor));
    }
  };
}

describe('100 steps of a 4-layer GPT against PyTorch', () => {
  it('the recipe learns: its loss falls by more than 0.5 nat', () => {
    expect(fixture.float32.losses[0]! - fixture.float32.losses.at(-1)!).toBeGreaterThan(0.5);
  });

  it('float32: loss and gradient norm at every step', async () => {
    const curve = await train({ dtype: 'float32' });
    expect(lossDistance(curve, fixture.float32)).toBeLessThan(bounds.loss);
    expect(normDistance(curve, fixture.float32)).toBeLessThan(bounds.norm);
  });

  it('float32: the gradient of every parameter at step 1', async () => {
    for (const [name, distance] of await gradientDistances())
      expect(distance, name).toBeLessThan(bounds.gradient);
  });

  it('bfloat16: loss at every step', async () => {
    expect(lossDistance(await train({ dtype: 'bfloat16' }), fixture.bfloat16)).toBeLessThan(
      bounds.bfloat16Loss,
    );
  });
});

describe('planted faults turn the checks red', { tags: ['whole'] }, () => {
  it('a bias that never trains', async () => {
    const tamper = scaleGradients('layers.2.mlp.linear_fc1.bias', 0);
    expect(lossDistance(await train({ dtype: 'float32' }, tamper), fixture.float32)).toBeGreaterThan(
      bounds.loss,
    );
    const distances = await gradientDistances(tamper);
    expect(distances.get('decoder.layers.2.mlp.linear_fc1.bias')).toBeGreaterThan(bounds.gradient);
  });

  it('halved layer-norm gradients', async () => {
    const tamper = scaleGradients('layernorm.weight', 0.5);
    const distances = [...(await gradientDistances(tamper))].filter(([name]) =>
      name.endsWith('layernorm.weight'),
    );
    expect(distances.length).toBe(2 * recipe.numLayers + 1);
    for (const [name, distance] of distances) expect(distance, name).toBeGreaterThan(bounds.gradient);
    expect(normDistance(await train({ dtype: 'float32' }, tamper), fixture.float32)).toBeGreaterThan(
      bounds.norm,
    );
  });

  it('the check sees a tensor of the wrong size', () => {
    const run = build({ dtype: 'float32' });
    expect(() => run.stage.parameters[0]!.assignData(Tensor.zeros({ shape: [1], dtype: 'float32' }))).toThrow(
      /shape/,
    );
    run.dispose();
  });
});
