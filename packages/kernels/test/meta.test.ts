import { MtlError } from '@mtl/errors';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  add,
  type Device,
  hostInformation,
  listOperations,
  memoryStatistics,
  numLiveTensors,
  operationStatistics,
  resetPeakMemory,
  setNumThreads,
  supportsOperation,
  Tensor,
  tidy,
  trimMemory,
} from '../src/index.js';
import { caseTables } from './op-cases/case-tables.js';
import { listDtypes } from './op-cases/check-parity.js';
import { countsOfCase } from './op-cases/counts-of-case.js';
import type { TensorSpec } from './op-cases/op-case.js';

const cases = caseTables
  .flatMap((table) => table.cases)
  .filter(({ benchmark, isOnlyForCuda }) => benchmark === undefined && !isOnlyForCuda);

const { numThreads } = hostInformation();
afterAll(() => {
  setNumThreads(numThreads);
  expect(numLiveTensors()).toBe(0);
});

function catchMessage(body: () => unknown): string | undefined {
  try {
    body();
  } catch (error) {
    return MtlError.isInstance(error) ? `${error.code}: ${error.message}` : String(error);
  }
  return undefined;
}

describe('device meta, for a CPU of 3 threads', () => {
  beforeAll(() => setNumThreads(3));

  it.each(cases)('counts the memory and FLOPs of $name', (opCase) => {
    for (const dtype of listDtypes(opCase)) {
      const counted = countsOfCase(opCase, { device: 'meta', dtype });
      expect(counted, dtype).toEqual(countsOfCase(opCase, { device: 'cpu', dtype }));
    }
  });
});

describe('device meta', () => {
  it('refuses operands as the CPU does', () => {
    const found = new Set<string>();
    const tried = new Set<string>();
    for (const opCase of cases) {
      for (const [name, spec] of Object.entries(opCase.tensors)) {
        // one case of each operation and operand is enough
        const operand = `${opCase.operation} ${name}`;
        if (tried.has(operand)) continue;
        tried.add(operand);
        const wrong: readonly TensorSpec[] = [
          { ...spec, shape: [...spec.shape, 1] },
          { ...spec, dtype: spec.dtype === 'uint8' ? 'int64' : 'uint8' },
        ];
        for (const each of wrong) {
          const run = (device: Device) => () =>
            countsOfCase(opCase, { device, dtype: 'float32', tensors: { ...opCase.tensors, [name]: each } });
          const onMeta = catchMessage(run('meta'));
          expect(onMeta, `${opCase.name}, ${name}`).toBe(catchMessage(run('cpu')));
          if (onMeta !== undefined) found.add(opCase.operation);
        }
      }
    }
    // every operation refuses something
    expect([...found].sort()).toEqual(
      listOperations()
        .map(({ name }) => name)
        .sort(),
    );
  });

  it('runs every operation', () => {
    for (const { name } of listOperations()) expect(supportsOperation(name, 'meta'), name).toBe(true);
  });

  it('accepts values and has none to read', () => {
    tidy(() => {
      const tensor = Tensor.from([1, 2, 3], { shape: [3], dtype: 'float32', device: 'meta' });
      tensor.zero();
      const refused = catchMessage(() => tensor.rows(0, 1).item());
      expect(refused).toBe('MTL_META: a tensor on device meta has no values to read');
    });
  });

  it('does not mix with tensors that have values', () => {
    tidy(() => {
      const [left, output] = (['meta', 'cpu'] as const).map((device) =>
        Tensor.zeros({ shape: [2], dtype: 'float32', device }),
      ) as [Tensor, Tensor];
      expect(catchMessage(() => add({ output, left, right: left }))).toMatch(
        /^MTL_DEVICE: add: left is on device meta/,
      );
    });
  });

  it('counts memory that no machine has, and reuses it as the CPU does', () => {
    trimMemory('meta');
    const shape = [2 ** 40];
    for (let round = 0; round < 3; round++)
      Tensor.empty({ shape, dtype: 'float32', device: 'meta' }).dispose();
    const { bytesInUse, bytesReserved, peakBytes } = memoryStatistics('meta');
    expect([bytesInUse, bytesReserved]).toEqual([0, 2 ** 42]);
    expect(peakBytes).toBeGreaterThanOrEqual(2 ** 42);
    trimMemory('meta');
    expect(memoryStatistics('meta').bytesReserved).toBe(0);
    resetPeakMemory('meta');
  });

  it('takes addresses again that were given back: pointers of WebAssembly have 32 bits', () => {
    trimMemory('meta');
    // six times 2 GiB and more, one after the other
    for (let round = 0; round < 6; round++) {
      const sizes = [3, 2, 3].map((part) => part * 2 ** 28 + round * 2 ** 26);
      const tensors = sizes.map((size) => Tensor.empty({ shape: [size], dtype: 'uint8', device: 'meta' }));
      for (const tensor of tensors) tensor.dispose();
      trimMemory('meta');
    }
    expect(memoryStatistics('meta').bytesReserved).toBe(0);
    resetPeakMemory('meta');
  });
});

describe('operationStatistics', () => {
  it.each(['cpu', 'meta'] as const)('counts bytes that operations read and write on %s', (device) => {
    const ofAdd = () => operationStatistics().find(({ name }) => name === 'add')!;
    const before = ofAdd();
    tidy(() => {
      const [left, right, output] = [1, 2, 3].map(() =>
        Tensor.zeros({ shape: [5], dtype: 'bfloat16', device }),
      );
      add({ output: output!, left: left!, right: right! });
    });
    const { calls, bytesRead, bytesWritten } = ofAdd();
    expect([calls - before.calls, bytesRead - before.bytesRead, bytesWritten - before.bytesWritten]).toEqual([
      1, 20, 10,
    ]);
  });
});
