import type { LogicalTensor } from '@mtl/checkpoint';
import { countElements, matmul, scale, Tensor, tidy } from '@mtl/kernels';
import type { GptModelConfiguration } from '@mtl/models';
import { isAdapter, type LoraConfiguration } from './lora-configuration.js';
import { specifyLora } from './lora-modules.js';
import { type AdaptedWeight, adaptedWeights } from './lora-weight-names.js';

/**
 * Returns the weights of a model with its adapters merged into them: the model without adapters then computes
 * the same up to rounding. A weight is merged in float32 when it is read; weights without adapters are passed
 * through.
 *
 * @param tensors the tensors of the whole model and its adapters, complete and in float32
 * @throws ConfigurationError MTL_LORA_TARGETS
 */
export function mergedWeights(
  tensors: readonly LogicalTensor[],
  { model, lora }: { readonly model: GptModelConfiguration; readonly lora: LoraConfiguration },
): LogicalTensor[] {
  const { scale: factor } = specifyLora(lora, model);
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const all = adaptedWeights(model, lora);
  return tensors
    .filter(({ name }) => !isAdapter(name))
    .map((tensor) => {
      const adapters = all.filter(({ weight }) => weight.name === tensor.name);
      if (adapters.length === 0) return tensor;
      const read = async (): Promise<Uint8Array> => {
        const factors = await Promise.all(
          adapters.map(async (adapter) => ({
            adapter,
            down: copyFloats(await byName.get(adapter.down.name)!.read()),
            up: copyFloats(await byName.get(adapter.up.name)!.read()),
          })),
        );
        const values = copyFloats(await tensor.read());
        for (const { adapter, ...each } of factors) {
          const add = adapter.isOfExperts ? addToExperts : addTo;
          add(values, { weight: adapter.weight.globalShape, outputs: adapter.outputs, ...each, factor });
        }
        return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      };
      return { ...tensor, read, readInto: async (target: Uint8Array) => target.set(await read()) };
    });
}

/** Returns a copy of the bytes as floats, which the caller may change. */
function copyFloats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

/** One adapter's addition to a weight. */
interface Addition {
  /** The shape of the weight. */
  readonly weight: readonly number[];
  /** The range of the weight's outputs that the adapter changes. Default: all outputs. */
  readonly outputs: AdaptedWeight['outputs'];
  readonly down: Float32Array;
  readonly up: Float32Array;
  readonly factor: number;
}

/** Adds factor B A to the weight, separately for each expert. */
function addToExperts(values: Float32Array, { weight, down, up, ...others }: Addition): void {
  const [numExperts, ...shape] = weight as [number, ...number[]];
  const selectPart = (all: Float32Array, expert: number): Float32Array => {
    const size = all.length / numExperts;
    return all.subarray(expert * size, (expert + 1) * size);
  };
  for (let expert = 0; expert < numExperts; expert++) {
    const factors = { down: selectPart(down, expert), up: selectPart(up, expert) };
    addTo(selectPart(values, expert), { ...others, weight: shape, ...factors });
  }
}

/** Adds factor B A to the part of the weight that the adapter changes. */
function addTo(values: Float32Array, { weight: shape, outputs, down, up, factor }: Addition): void {
  const inputs = shape.at(-1)!;
  const rank = down.length / inputs;
  tidy(() => {
    const dtype = 'float32';
    const whole = Tensor.from(values, { shape, dtype });
    const added = Tensor.empty({ shape: [up.length / rank, inputs], dtype });
    const left = Tensor.from(up, { shape: [up.length / rank, rank], dtype });
    const right = Tensor.from(down, { shape: [rank, inputs], dtype });
    matmul({ output: added, left, right });
    const strides = shape.map((_, dim) => countElements(shape.slice(dim + 1)));
    const offset = (outputs ?? []).reduce((sum, { start }, dim) => sum + start * strides[dim]!, 0);
    const box = [...(outputs?.map(({ start, end }) => end - start) ?? shape.slice(0, -1)), inputs];
    const output = whole.strided({ offset, shape: box, strides });
    scale({ output, input: added.reshape(box), factor, accumulate: true });
    whole.readInto(values);
  });
}
