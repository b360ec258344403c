import { countEmulated, hasEmulationCounts } from '@mtl/cuda-emulation/counts';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  type Device,
  GraphMemory,
  linearWeightGradient,
  matmul,
  memoryStatistics,
  numLiveTensors,
  observeOperations,
  Tensor,
  tidy,
} from '../../src/index.js';
import { openCuda } from '../../src/internal/index.js';
import {
  MatmulCalls,
  type MatmulChoices,
  timeMatmuls,
  useMatmulChoices,
} from '../../src/operations/matmul-choices.js';
import { catchError } from '../support/refusals.js';

// the times in milliseconds of three emulated candidates, read when the first algorithm is chosen: the second
// is the fastest; each candidate sums in another order
process.env.MTL_EMULATION_MATMUL_MS = '3,1,2';

const [rows, inner, columns] = [3, 200, 5];
const device = { device: 'cuda' } as const;

/** Returns numbers whose sums differ in their last bits between the candidates. */
const values = (size: number): number[] => Array.from({ length: size }, (_, i) => Math.sin(i * i + 1));

interface MatmulOptions {
  readonly device?: Device;
  /** The number of elements in memory before the left operand. */
  readonly offset?: number;
}

/** Returns the values of a matmul; on `meta-cuda` there are no values. */
function multiply({ device = 'cuda', offset = 0 }: MatmulOptions = {}): number[] {
  return tidy(() => {
    const of = (shape: number[]) => ({ shape, dtype: 'float32', device }) as const;
    const all = Tensor.from(values(offset + rows * inner), of([offset + rows * inner]));
    const left = all.view({ offset, shape: [rows, inner] });
    const right = Tensor.from(values(inner * columns), of([inner, columns]));
    const output = Tensor.empty(of([rows, columns]));
    matmul({ output, left, right });
    return device === 'cuda' ? output.toArray() : [];
  });
}

function countCalls(body: () => void): MatmulCalls {
  const calls = new MatmulCalls();
  observeOperations(calls.observe, body);
  return calls;
}

/** Returns the number of the emulation's candidate, which is in the fifth of an algorithm's eight words. */
const readCandidate = (algorithm: string): number => Number.parseInt(algorithm.slice(4 * 16, 5 * 16), 16);

describe.skipIf(!hasEmulationCounts)('algorithms of matmuls under emulation', () => {
  let first: number[];
  let chosen: MatmulChoices;
  const onMeta = () => multiply({ device: 'meta-cuda' });

  beforeAll(() => {
    openCuda();
    first = multiply();
    chosen = timeMatmuls(countCalls(onMeta), device);
    useMatmulChoices({}, device);
  });
  afterEach(() => {
    useMatmulChoices({}, device);
    expect(numLiveTensors()).toBe(0);
  });

  it('are the fastest of those that are timed, for what device meta-cuda has recorded', () => {
    expect(Object.values(chosen).map(readCandidate)).toEqual([1]);
    expect(Object.keys(chosen)[0]).toMatch(/^1,3,5,200,/);
  });

  it('are used from then on, without waiting for the device, and others when they are set', () => {
    timeMatmuls(countCalls(onMeta), device);
    const timed = multiply();
    expect(timed).not.toEqual(first);
    useMatmulChoices({}, device);
    expect(multiply()).toEqual(first);
    useMatmulChoices(chosen, device);
    // the only synchronization reads the result
    let again: number[] = [];
    const { synchronizations } = countEmulated(() => {
      again = multiply();
    });
    expect(again).toEqual(timed);
    expect(synchronizations).toBe(1);
  });

  it('are not timed again where they are known', () => {
    const timing = countEmulated(() => timeMatmuls(countCalls(onMeta), device));
    expect(timing.synchronizations).toBeGreaterThan(0);
    // the slowest one: the choice is used without timing
    const slow = Object.fromEntries(
      Object.entries(chosen).map(([problem, algorithm]) => [
        problem,
        `${algorithm.slice(0, 64)}${'0'.repeat(15)}2${algorithm.slice(80)}`,
      ]),
    );
    let known: MatmulChoices = {};
    const repeated = countEmulated(() => {
      known = timeMatmuls(countCalls(onMeta), { ...device, known: slow });
    });
    expect(known).toEqual(slow);
    expect(repeated.synchronizations).toBe(0);
  });

  it('are for the alignment of the operands', () => {
    const offset = 4; // 16 bytes
    const aligned = timeMatmuls(
      countCalls(() => multiply({ device: 'meta-cuda', offset })),
      device,
    );
    expect(Object.keys(aligned)).toHaveLength(1);
    expect(aligned).not.toHaveProperty(Object.keys(chosen)[0]!);
    const timed = multiply({ offset });
    useMatmulChoices(chosen, device);
    expect(multiply({ offset })).not.toEqual(timed);
    useMatmulChoices(aligned, device);
    expect(multiply({ offset })).toEqual(timed);
  });

  it('are found for operations that contain a matmul, and for each matmul once', () => {
    const calls = countCalls(() =>
      tidy(() => {
        const zeros = (...shape: number[]) => Tensor.empty({ shape, dtype: 'float32', device: 'meta-cuda' });
        const operands = { outputGradient: zeros(6, 4), input: zeros(6, 8) };
        const gradients = { weightGradient: zeros(4, 8), biasGradient: zeros(4) };
        for (let time = 0; time < 2; time++) linearWeightGradient({ ...gradients, ...operands });
      }),
    );
    expect([...calls].map(({ name }) => name)).toEqual(['linear_weight_gradient']);
    expect(Object.keys(timeMatmuls(calls, device))).toHaveLength(1);
  });

  it('leave the memory of the device as it was', () => {
    const { bytesInUse, bytesReserved } = memoryStatistics('cuda');
    timeMatmuls(countCalls(onMeta), device);
    const after = memoryStatistics('cuda');
    expect(after.bytesInUse).toBe(bytesInUse);
    expect(after.bytesReserved).toBeLessThanOrEqual(bytesReserved);
  });

  it('are refused where cuBLASLt does not offer them', () => {
    const [[problem, algorithm]] = Object.entries(chosen) as [[string, string]];
    useMatmulChoices({ [problem]: `${'f'.repeat(16)}${algorithm.slice(16)}` }, device);
    const error = catchError(multiply);
    expect(error.code).toBe('MTL_MATMUL_CHOICES');
    expect(error.message).toContain('none of the 3');
    expect(error.remedy).toContain('remove their file');
    // invalid known choices are rejected before anything is timed; no choice is in use afterwards
    const known = { [problem]: `${'f'.repeat(16)}${algorithm.slice(16)}` };
    expect(catchError(() => timeMatmuls(countCalls(onMeta), { ...device, known })).code).toBe(
      'MTL_MATMUL_CHOICES',
    );
    expect(multiply()).toEqual(first);
  });

  it.each([
    ['no algorithm', 'xyz'],
    ['too short a one', '0'.repeat(127)],
    ['too long a one', '0'.repeat(129)],
    ['capital letters', 'F'.repeat(128)],
  ])('are refused with %s, and those before stay', (_, algorithm) => {
    useMatmulChoices(chosen, device);
    const timed = multiply();
    expect(catchError(() => useMatmulChoices({ problem: algorithm }, device)).code).toBe(
      'MTL_MATMUL_CHOICES',
    );
    expect(multiply()).toEqual(timed);
  });

  it('are not chosen while a graph is recorded', () => {
    const memory = new GraphMemory('cuda');
    try {
      const calls = countCalls(onMeta);
      const error = catchError(() => memory.capture(() => void timeMatmuls(calls, device)));
      expect(error.code).toBe('MTL_CAPTURE');
      expect(error.message).toContain('timing matmuls');
    } finally {
      memory.dispose();
    }
  });
});
