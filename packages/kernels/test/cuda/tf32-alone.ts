// A matmul of two matrices of 1 + 2^-12 in a separate process, because a device is opened once: prints two
// elements, each divided by the number of terms. Arguments: rows and columns of both, whether TF32 is
// allowed.
import { matmul, Tensor } from '../../src/index.js';
import { openCuda } from '../../src/internal/index.js';

const size = Number(process.argv[2]);
openCuda({ allowTf32: process.argv[3] === 'true' });
const filled = (value: number): Tensor =>
  Tensor.from(new Array<number>(size * size).fill(value), {
    shape: [size, size],
    dtype: 'float32',
    device: 'cuda',
  });
const output = filled(0);
matmul({ output, left: filled(1 + 2 ** -12), right: filled(1 + 2 ** -12) });
const values = output.toArray();
console.log(JSON.stringify([values[0]! / size, values.at(-1)! / size]));
