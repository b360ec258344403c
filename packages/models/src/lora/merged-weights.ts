import type { LogicalTensor } from '@mtl/checkpoint';
import { matmul, scale, sizeOf, Tensor, tidy } from '@mtl/kernels';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { type AdaptedWeight, adaptedWeights } from './adapted-weights.js';
import { isAdapter } from './is-adapter.js';
import type { LoraConfiguration } from './lora-configuration.js';
import { loraSpecificationOf } from './lora-specification-of.js';

/**
 * The weights of a model with what its adapters add: those of a model without adapters, that computes the
 * same up to rounding. A weight is merged when it is read, in float32; the others are given on as they are.
 *
 * @param tensors of the whole model and its adapters, complete and in float32
 * @throws ConfigurationError MTL_LORA_TARGETS
 */
export function mergedWeights(
  tensors: readonly LogicalTensor[],
  { model, lora }: { readonly model: GptModelConfiguration; readonly lora: LoraConfiguration },
): LogicalTensor[] {
  const { scale: factor } = loraSpecificationOf(lora, model);
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
            down: floatsOf(await byName.get(adapter.down.name)!.read()),
            up: floatsOf(await byName.get(adapter.up.name)!.read()),
          })),
        );
        const values = floatsOf(await tensor.read());
        for (const each of factors) addTo(values, { ...each, factor });
        return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      };
      return { ...tensor, read, readInto: async (target: Uint8Array) => target.set(await read()) };
    });
}

/** A copy, which may be changed. */
function floatsOf(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

/** weight += factor B A, in the adapter's box of the weight. */
function addTo(
  weight: Float32Array,
  options: {
    readonly adapter: AdaptedWeight;
    readonly down: Float32Array;
    readonly up: Float32Array;
    readonly factor: number;
  },
): void {
  const { adapter, down, up, factor } = options;
  const { globalShape: shape } = adapter.weight;
  const inputs = shape.at(-1)!;
  const rank = down.length / inputs;
  tidy(() => {
    const dtype = 'float32';
    const whole = Tensor.from(weight, { shape, dtype });
    const added = Tensor.empty({ shape: [up.length / rank, inputs], dtype });
    const left = Tensor.from(up, { shape: [up.length / rank, rank], dtype });
    const right = Tensor.from(down, { shape: [rank, inputs], dtype });
    matmul({ output: added, left, right });
    const strides = shape.map((_, dim) => sizeOf(shape.slice(dim + 1)));
    const offset = (adapter.outputs ?? []).reduce((sum, { start }, dim) => sum + start * strides[dim]!, 0);
    const box = [...adapter.up.globalShape.slice(0, -1), inputs];
    const output = whole.strided({ offset, shape: box, strides });
    scale({ output, input: added.reshape(box), factor, accumulate: true });
    whole.readInto(weight);
  });
}
