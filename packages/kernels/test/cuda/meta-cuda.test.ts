import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { memoryStatistics, numLiveTensors, supportsOperation } from '../../src/index.js';
import { findGpu, openCuda } from '../../src/internal/index.js';
import { caseTables } from '../op-cases/case-tables.js';
import { dtypesOf } from '../op-cases/check-parity.js';
import { countsOfCase } from '../op-cases/counts-of-case.js';

// an emulated device then keeps account of memory alone
process.env.MTL_EMULATION_IDLE = '1';
const { problem, title, isEmulated } = findGpu();
const cases = caseTables.flatMap((table) => table.cases).filter(({ benchmark }) => benchmark === undefined);

describe.skipIf(problem !== undefined)(`device meta-cuda (${title})`, () => {
  beforeAll(() => void openCuda());
  afterAll(() => {
    expect(numLiveTensors()).toBe(0);
    expect(memoryStatistics('meta-cuda').numAllocations).toBe(0);
  });

  // with and without the sums in device memory of Hopper's fused backward pass
  it('counts the memory of a fused attention backward pass', () => {
    const backward = cases.filter(({ operation }) => operation.endsWith('attention_backward'));
    const countedWith = (kernels: string) => {
      process.env.MTL_CUDA_ATTENTION = kernels;
      try {
        return backward.map((opCase) => {
          const counted = countsOfCase(opCase, { device: 'meta-cuda', dtype: 'bfloat16' });
          expect(counted).toEqual(countsOfCase(opCase, { device: 'cuda', dtype: 'bfloat16' }));
          return counted;
        });
      } finally {
        delete process.env.MTL_CUDA_ATTENTION;
      }
    };
    const counted = countedWith('fused-backward');
    // a Hopper is emulated
    if (isEmulated) expect(counted).not.toEqual(countedWith(''));
  });

  cases.forEach((opCase, index) => {
    // one dtype of each case: blocks are sized by dtypes and shapes alone, and neighbouring cases are alike
    const dtypes = dtypesOf(opCase);
    const dtype = dtypes[index % dtypes.length]!;
    it(`counts the memory and FLOPs of ${opCase.name} ${dtype}`, () => {
      if (!supportsOperation(opCase.operation, 'cuda')) return;
      const counted = countsOfCase(opCase, { device: 'meta-cuda', dtype });
      expect(counted).toEqual(countsOfCase(opCase, { device: 'cuda', dtype }));
    });
  });
});
