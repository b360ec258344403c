import { type Device, type DType, Tensor } from '@mtl/kernels';
import type { Parameter } from './parameter.js';

/**
 * Owns the memory of parameters that no optimizer stores, because they are not trained or because only their
 * gradients are needed.
 */
export interface ParameterStorage {
  dispose(): void;
}

/**
 * Allocates separate storage for every parameter. The values are zeros; if `zeroed` is false, they are
 * uninitialized. If `mainGradients` is true, parameters that are not frozen also get a main gradient, in
 * float64 for dtype float64 and otherwise in float32. Buffers are float32.
 */
export function allocateParameters(
  parameters: readonly Parameter[],
  options: {
    readonly device: Device;
    readonly dtype: DType;
    readonly mainGradients?: boolean;
    readonly zeroed?: boolean;
  },
): ParameterStorage {
  const { device, dtype, mainGradients = false, zeroed = true } = options;
  const tensors: Tensor[] = [];
  const allocate = (parameter: Parameter, itsDtype: DType): Tensor => {
    const tensor = Tensor.empty({ shape: parameter.shape, dtype: itsDtype, device });
    if (zeroed) tensor.zero();
    tensors.push(tensor);
    return tensor;
  };
  for (const parameter of parameters) {
    parameter.assignData(allocate(parameter, parameter.isBuffer ? 'float32' : dtype));
    if (mainGradients && !parameter.isFrozen) {
      parameter.assignMainGradient(allocate(parameter, dtype === 'float64' ? 'float64' : 'float32'));
    }
  }
  return {
    dispose: () => {
      for (const tensor of tensors) tensor.dispose();
    },
  };
}
