import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { countEmulated, hasEmulationCounts } from '@mtl/cuda-emulation/counts';
import { typescriptFlags } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DType, type GeluKind, numLiveTensors, Tensor, tidy } from '../../src/index.js';
import { openCuda } from '../../src/internal/index.js';
import {
  linearGeluBackward,
  linearGeluForward,
  linearResidualForward,
  linearWeightGradient,
} from '../../src/operations/matmuls.js';

interface Sizes {
  readonly rows: number;
  readonly hidden: number;
  readonly feedForward: number;
}
const even: Sizes = { rows: 6, hidden: 16, feedForward: 24 };
// cuBLASLt's documentation asks for rows of a multiple of 8 elements
const odd: Sizes = { rows: 6, hidden: 16, feedForward: 21 };

const fillTensors =
  (dtype: DType) =>
  (...shape: number[]): Tensor =>
    Tensor.from(new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(0.5), {
      shape,
      dtype,
      device: 'cuda',
    });

const forward = (
  { rows, hidden, feedForward }: Sizes,
  kind: GeluKind,
  dtype: DType = 'bfloat16',
): (() => void) => {
  const tensor = fillTensors(dtype);
  const tensors = {
    output: tensor(rows, feedForward),
    preactivation: tensor(rows, feedForward),
    input: tensor(rows, hidden),
    weight: tensor(feedForward, hidden),
    bias: tensor(feedForward),
  };
  return () => linearGeluForward({ ...tensors, kind });
};
const backward = (
  { rows, hidden, feedForward }: Sizes,
  kind: GeluKind,
  dtype: DType = 'bfloat16',
): (() => void) => {
  const tensor = fillTensors(dtype);
  const tensors = {
    inputGradient: tensor(rows, feedForward),
    preactivation: tensor(rows, feedForward),
    outputGradient: tensor(rows, hidden),
    weight: tensor(hidden, feedForward),
  };
  return () => linearGeluBackward({ ...tensors, kind });
};
const residual = (
  { rows, hidden, feedForward }: Sizes,
  { dtype = 'bfloat16', hasBias = true }: { readonly dtype?: DType; readonly hasBias?: boolean } = {},
): (() => void) => {
  const tensor = fillTensors(dtype);
  const tensors = {
    output: tensor(rows, 1, hidden),
    residual: tensor(rows, 1, hidden),
    input: tensor(rows, 1, feedForward),
    weight: tensor(hidden, feedForward),
    ...(hasBias && { bias: tensor(hidden) }),
  };
  return () => linearResidualForward(tensors);
};
const weightGradient = ({ rows, hidden, feedForward }: Sizes): (() => void) => {
  const tensor = fillTensors('float32');
  const tensors = {
    weightGradient: tensor(feedForward, hidden),
    biasGradient: tensor(feedForward),
    outputGradient: tensor(rows, feedForward),
    input: tensor(rows, hidden),
  };
  return () => linearWeightGradient(tensors);
};

describe.skipIf(!hasEmulationCounts)('matmuls of linear layers under emulation', () => {
  beforeAll(() => void openCuda());
  afterAll(() => expect(numLiveTensors()).toBe(0));

  // kernels of this library in addition to the matmul: 0 if cuBLASLt computes everything
  it.each([
    ['GELU after a matmul is its epilogue', () => forward(even, 'tanh'), 0],
    ['exact GELU, which it does not offer, is a kernel', () => forward(even, 'erf'), 1],
    ['so is GELU of rows that it does not take', () => forward(odd, 'tanh'), 1],
    ['so is GELU of float32, for which its tanh was not measured', () => forward(even, 'tanh', 'float32'), 1],
    ["so is float32's GELU's derivative", () => backward(even, 'tanh', 'float32'), 1],
    ["GELU's derivative after a matmul is its epilogue", () => backward(even, 'tanh'), 0],
    ["exact GELU's derivative is a kernel", () => backward(even, 'erf'), 1],
    ["so is GELU's derivative of rows that it does not take", () => backward(odd, 'tanh'), 1],
    ['a residual and a bias are added by the matmul', () => residual(even), 0],
    ['so is a residual alone', () => residual(even, { hasBias: false }), 0],
    ['so are residuals with rows of any length', () => residual(odd), 0],
    ['so are residuals in float32', () => residual(even, { dtype: 'float32' }), 0],
    // the emulated GPU is a Hopper, where cuBLASLt's epilogue is expected to cost more than it saves
    ["a bias's gradient is two kernels after the matmul", () => weightGradient(even), 2],
  ])('%s', (_, make, kernels) => {
    tidy(() => {
      const run = make();
      run(); // creates plans and scratch memory
      expect(countEmulated(run)).toMatchObject({
        kernels,
        synchronizations: 0,
        copiesToDevice: 0,
        copiesToHost: 0,
        memoryCalls: 0,
      });
    });
  });

  /**
   * Returns a separate process's report on its plans, and the number of kernels that it counted in addition
   * to the matmul.
   */
  const runAlone = (environment: Record<string, string>): { stderr: string; stdout: string } => {
    const script = fileURLToPath(new URL('fused-linear-alone.ts', import.meta.url));
    const args = [...typescriptFlags, script];
    const options = { encoding: 'utf8', env: { ...process.env, ...environment } } as const;
    const { status, stderr, stdout } = spawnSync(process.execPath, args, options);
    expect(status, stderr).toBe(0);
    return { stderr, stdout };
  };

  it('are reported once for each plan when that is asked for, with what a matmul refused after all', () => {
    const { stderr } = runAlone({ MTL_CUBLASLT_REPORT: '1', MTL_CUBLASLT_EPILOGUES: '1' });
    expect(stderr.split('\n').filter((line) => line.startsWith('cuBLASLt'))).toEqual([
      'cuBLASLt: gelu [6, 24, 16] bfloat16 into bfloat16: offered at planning (status 0)',
      'cuBLASLt: residual [6, 24, 16] bfloat16 into bfloat16: offered at planning (status 0)',
      'cuBLASLt: bias gradient [24, 16, 6] float32 into float32: offered at planning (status 0)',
      'cuBLASLt: bias gradient [24, 16, 6] float16 into float32: offered at planning (status 0)',
      'cuBLASLt: bias gradient [24, 16, 6] float16 into float32: not offered at the matmul (status 15)',
    ]);
    expect(runAlone({}).stderr).toBe('');
  });

  // kernels in addition to a matmul with GELU, to one with a residual, and to a weight gradient with a bias
  // gradient
  it.each([
    [{}, '0 0 2'],
    [{ MTL_CUBLASLT_EPILOGUES: '0' }, '1 1 2'],
    [{ MTL_CUBLASLT_EPILOGUES: '1' }, '0 0 1'],
    // cuBLASLt returns "invalid value" (7) as well as "not supported" (15) for unsupported cases; the bias of
    // the matmul before the separate GELU is a kernel, too
    [{ MTL_EMULATION_EPILOGUE_STATUS: '7' }, '2 1 2'],
    [{ MTL_EMULATION_EPILOGUE_STATUS: '15' }, '2 1 2'],
  ])('are kernels where epilogues are switched off or refused: %o', (environment, kernels) => {
    expect(runAlone(environment).stdout.trim().split('\n').join(' ')).toBe(`${kernels} 10 10.5`);
  });
});
