import type { Parameter } from '@mtl/autograd';
import type { LogicalTensor } from '@mtl/checkpoint';
import { UsageError } from '@mtl/errors';
import type { DType } from '@mtl/kernels';
import { lentMemory } from '@mtl/kernels/internal';

const safetensorsDtypes: Partial<Record<DType, LogicalTensor['dtype']>> = {
  float32: 'F32',
  bfloat16: 'BF16',
  float16: 'F16',
};

/**
 * Returns the given parameters as logical tensors for inference. Their values are in the compute dtype. The
 * parameters must have memory (see `allocateParameters`). In training, load and save the master weights
 * instead: see `weightTensors` of @mtl/trainer.
 */
export function parameterTensors(parameters: readonly Parameter[]): LogicalTensor[] {
  return parameters.map((parameter) => {
    const dtype = safetensorsDtypes[parameter.data.dtype];
    if (dtype === undefined) {
      throw new UsageError('MTL_DTYPE', `parameter ${parameter.name} is ${parameter.data.dtype}`, {
        expected: Object.keys(safetensorsDtypes).join(', '),
      });
    }
    return {
      name: parameter.name,
      dtype,
      globalShape: parameter.globalShape,
      slices: parameter.slices,
      read: () => {
        const values = parameter.data.read();
        return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      },
      readInto: (target) => parameter.data.readInto(target),
      write: (bytes) => parameter.data.write(bytes),
      ...lentMemory(parameter.data),
    };
  });
}
