import { checkValues, type Dtype, dtypeBytes } from '@mtl/checkpoint';
import { sizeOf } from '@mtl/kernels';
import type { WeightFiles } from '../huggingface/weight-files.js';
import { megatronTerms } from './megatron-files.js';

interface WholeTensor {
  readonly shape: readonly number[];
  readonly dtype: Dtype;
}

/**
 * The weights of a checkpoint as whole tensors, which `fill` puts together.
 *
 * @param options.tensors by our names
 */
export function wholeWeights(options: {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, WholeTensor>;
  fill(name: string, target: Uint8Array): Promise<void>;
}): WeightFiles {
  const { path, fill } = options;
  const tensors = new Map(
    [...options.tensors].map(([name, { shape, dtype }]) => {
      return [name, { shape, dtype, bytes: sizeOf(shape) * dtypeBytes[dtype] }] as const;
    }),
  );
  return {
    path,
    terms: megatronTerms,
    tensors,
    read: async ({ name, target, requireFinite = false }) => {
      const { shape, dtype, bytes } = tensors.get(name)!;
      const whole = target ?? new Uint8Array(bytes);
      await fill(name, whole);
      if (requireFinite) {
        const slices = shape.map((end) => ({ start: 0, end }));
        const remedy = 'take an earlier checkpoint: the values of this one are not finite';
        checkValues(whole, { dtype, check: { place: path, name, slices, remedy, exitCode: 2 } });
      }
      return whole;
    },
  };
}
