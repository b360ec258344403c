import { afterEach, describe, expect, it } from 'vitest';
import {
  type DType,
  hostInformation,
  matmul,
  memoryStatistics,
  numLiveTensors,
  observeOperations,
  setMatmulLibrary,
  Tensor,
  tidy,
} from '../src/index.js';
import {
  lastMatmulKernel,
  MatmulCalls,
  matmulChoicesInUse,
  timeMatmuls,
  useMatmulChoices,
} from '../src/operations/matmul-choices.js';
import { catchError } from './support/refusals.js';

const device = { device: 'cpu' } as const;
const [rows, inner, columns] = [3, 300, 70];
const problem = `float32,float32,1,${rows},${columns},${inner},nt`;
const { onednnVersion } = hostInformation();
const hasOneDnn = onednnVersion !== 'none';

/** Returns numbers whose sums differ in their last bits between the kernels. */
const values = (size: number): number[] => Array.from({ length: size }, (_, i) => Math.sin(i * i + 1));

interface MatmulOptions {
  readonly device?: 'cpu' | 'meta';
  readonly dtype?: DType;
  readonly numRows?: number;
}

/** Returns the values of a matmul with a transposed right operand; on `meta` there are no values. */
function multiply({ device = 'cpu', dtype = 'float32', numRows = rows }: MatmulOptions = {}): number[] {
  return tidy(() => {
    const of = (shape: number[]) => ({ shape, dtype, device }) as const;
    const left = Tensor.from(values(numRows * inner), of([numRows, inner]));
    const right = Tensor.from(values(inner * columns), of([columns, inner]));
    const output = Tensor.empty(of([numRows, columns]));
    matmul({ output, left, right, transposeRight: true });
    return device === 'cpu' ? output.toArray() : [];
  });
}

function countCalls(body: () => void): MatmulCalls {
  const calls = new MatmulCalls();
  observeOperations(calls.observe, body);
  return calls;
}

/** Returns the values that a kernel computes. */
function multiplyWith(kernel: string): number[] {
  useMatmulChoices({ [problem]: kernel }, device);
  const result = multiply();
  expect(lastMatmulKernel()).toBe(kernel);
  useMatmulChoices({}, device);
  return result;
}

describe('choices of matmuls on device cpu', () => {
  afterEach(() => {
    useMatmulChoices({}, device);
    setMatmulLibrary('faster');
    expect(numLiveTensors()).toBe(0);
  });

  it('decide which code computes a matmul', () => {
    setMatmulLibrary('own');
    const [blocks, fewRows] = [multiplyWith('blocks'), multiplyWith('few-rows')];
    expect(fewRows).not.toEqual(blocks);
    for (const [index, value] of blocks.entries()) expect(fewRows[index]).toBeCloseTo(value, 3);
    // another number of rows is another problem, and follows the table
    useMatmulChoices({ [problem]: 'blocks' }, device);
    multiply({ numRows: 1 });
    expect(lastMatmulKernel()).toBe('few-rows');
  });

  it.skipIf(!hasOneDnn)('name oneDNN, also for a matmul that the table gives to our kernels', () => {
    setMatmulLibrary('oneDNN');
    useMatmulChoices({ [problem]: 'oneDNN' }, device);
    const computed = multiply();
    expect(lastMatmulKernel()).toBe('oneDNN');
    setMatmulLibrary('own');
    expect(multiply()).toEqual(computed);
  });

  it('are not needed for nine rows of bfloat16, which oneDNN multiplies on tiles, where there are tiles', () => {
    const hasTiles = hostInformation().instructionSet === 'amx';
    multiply({ dtype: 'bfloat16', numRows: hasTiles ? 8 : 4 });
    expect(lastMatmulKernel()).toBe('few-rows');
    for (const numRows of [9, 32]) {
      multiply({ dtype: 'bfloat16', numRows });
      expect(lastMatmulKernel() === 'oneDNN').toBe(hasTiles && hasOneDnn);
    }
    setMatmulLibrary('own');
    multiply({ dtype: 'bfloat16', numRows: 32 });
    expect(lastMatmulKernel()).not.toBe('oneDNN');
  });

  it('are made by time, once for each problem that device meta has recorded, and are used from then on', () => {
    const calls = countCalls(() => {
      for (const numRows of [rows, 40, rows]) multiply({ device: 'meta', numRows });
    });
    const before = memoryStatistics('cpu').bytesInUse;
    const chosen = timeMatmuls(calls, device);
    expect(Object.keys(chosen).sort()).toEqual([problem, problem.replace(',3,', ',40,')].sort());
    expect(matmulChoicesInUse(device)).toEqual(chosen);
    expect(memoryStatistics('cpu').bytesInUse).toBe(before);
    const used = multiply();
    expect(lastMatmulKernel()).toBe(chosen[problem]);
    expect(used).toEqual(multiplyWith(chosen[problem]!));
  });

  it('are not timed again where they are known, and choices of other problems are not returned', () => {
    const calls = countCalls(() => multiply({ device: 'meta' }));
    for (const kernel of ['blocks', 'few-rows']) {
      const known = { [problem]: kernel, 'float32,float32,1,7,7,7,nn': 'blocks' };
      expect(timeMatmuls(calls, { ...device, known })).toEqual({ [problem]: kernel });
    }
  });

  it.each(['float32', 'bfloat16', 'float16'] as const)('are made in %s', (dtype) => {
    const chosen = timeMatmuls(
      countCalls(() => multiply({ device: 'meta', dtype })),
      device,
    );
    expect(Object.keys(chosen)).toEqual([problem.replaceAll('float32', dtype)]);
    multiply({ dtype });
  });

  it('that cannot compute the matmul are an error', () => {
    const name = problem.replace(',3,', ',100,');
    useMatmulChoices({ [name]: 'few-rows' }, device);
    const error = catchError(() => multiply({ numRows: 100 }));
    expect(error.code).toBe('MTL_MATMUL_CHOICES');
    expect(error.message).toContain(name);
  });

  it.each([{ [problem]: 'tiles' }, { '': 'blocks' }])('that are not choices are refused: %j', (choices) => {
    useMatmulChoices({ [problem]: 'blocks' }, device);
    expect(catchError(() => useMatmulChoices(choices, device)).code).toBe('MTL_MATMUL_CHOICES');
    expect(matmulChoicesInUse(device)).toEqual({ [problem]: 'blocks' });
  });

  it('exist on the devices cpu and cuda only', () => {
    const other = { device: 'reference' } as unknown as typeof device;
    expect(catchError(() => useMatmulChoices({}, other)).code).toBe('MTL_DEVICE');
  });
});
