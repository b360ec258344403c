// Products of linear layers in a process of its own, whose environment fused-linear.test.ts chooses: two of
// the same shape, so one plan; prints how many kernels the second launched beside the product.
import { countEmulated } from '@mtl/tooling/emulation-counts';
import { type DType, openCuda, Tensor } from '../../src/index.js';
import { linearGeluForward, linearWeightGradient } from '../../src/operations/linear.js';

openCuda();
const zeros = (dtype: DType, shape: number[]): Tensor => Tensor.zeros({ shape, dtype, device: 'cuda' });
const half = (...shape: number[]): Tensor => zeros('bfloat16', shape);
const tensors = {
  ...{ output: half(6, 24), preactivation: half(6, 24) },
  ...{ input: half(6, 16), weight: half(24, 16), bias: half(24) },
};
const run = (): void => linearGeluForward({ ...tensors, kind: 'tanh' });
run();
console.log(countEmulated(run).kernels);
for (const dtype of ['float32', 'float16'] as const) {
  linearWeightGradient({
    ...{ weightGradient: zeros('float32', [24, 16]), biasGradient: zeros('float32', [24]) },
    ...{ outputGradient: zeros(dtype, [6, 24]), input: zeros(dtype, [6, 16]) },
  });
}
