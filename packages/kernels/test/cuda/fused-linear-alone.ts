// Matmuls of linear layers in a separate process, whose environment fused-linear.test.ts chooses. Two matmuls
// of the same shape share one plan; prints the number of kernels that the second launched in addition to the
// matmul, and values.
import { countEmulated } from '@mtl/cuda-emulation/counts';
import { type DType, Tensor } from '../../src/index.js';
import { openCuda } from '../../src/internal/index.js';
import {
  linearGeluForward,
  linearResidualForward,
  linearWeightGradient,
} from '../../src/operations/matmuls.js';

openCuda();
const filled = (dtype: DType, shape: number[], value: number): Tensor =>
  Tensor.from(new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(value), {
    shape,
    dtype,
    device: 'cuda',
  });
const half = (...shape: number[]): Tensor => filled('bfloat16', shape, 0.5);
const tensors = {
  output: half(6, 24),
  preactivation: half(6, 24),
  // 16 products of 0.5 and a bias of 6: 10
  input: half(6, 16),
  weight: half(24, 16),
  bias: filled('bfloat16', [24], 6),
};
const kernelsOfSecond = (run: () => void): number => {
  run();
  return countEmulated(run).kernels;
};
console.log(kernelsOfSecond(() => linearGeluForward({ ...tensors, kind: 'tanh' })));
const sum = {
  output: half(6, 1, 24),
  residual: half(6, 1, 24),
  input: tensors.input.view({ shape: [6, 1, 16] }),
  weight: tensors.weight,
  bias: tensors.bias,
};
console.log(kernelsOfSecond(() => linearResidualForward(sum)));
const weightGradient = (dtype: DType): void =>
  linearWeightGradient({
    weightGradient: filled('float32', [24, 16], 0),
    biasGradient: filled('float32', [24], 0),
    outputGradient: filled(dtype, [6, 24], 0),
    input: filled(dtype, [6, 16], 0),
  });
console.log(kernelsOfSecond(() => weightGradient('float32')));
weightGradient('float16');
console.log(tensors.output.toArray()[0]);
console.log(sum.output.toArray()[0]);
