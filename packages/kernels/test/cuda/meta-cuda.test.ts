import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { memoryStatistics, numLiveTensors, supportsOperation } from '../../src/index.js';
import { findGpu, openCuda } from '../../src/internal/index.js';
import { caseTables } from '../op-cases/case-tables.js';
import { listDtypes } from '../op-cases/check-parity.js';
import { countsOfCase } from '../op-cases/counts-of-case.js';

// makes an emulated device account for memory only
process.env.MTL_EMULATION_IDLE = '1';
const { problem, title } = findGpu();
const cases = caseTables
  .flatMap((table) => table.cases)
  .filter(({ benchmark, isOnlyForHost }) => benchmark === undefined && !isOnlyForHost);

describe.skipIf(problem !== undefined)(`device meta-cuda (${title})`, () => {
  beforeAll(() => void openCuda());
  afterAll(() => {
    expect(numLiveTensors()).toBe(0);
    expect(memoryStatistics('meta-cuda').numAllocations).toBe(0);
  });

  cases.forEach((opCase, index) => {
    // one dtype of each case: the sizes of blocks depend only on dtypes and shapes, and neighbouring cases
    // are similar
    const dtypes = listDtypes(opCase);
    const dtype = dtypes[index % dtypes.length]!;
    it(`counts the memory and FLOPs of ${opCase.name} ${dtype}`, () => {
      if (!supportsOperation(opCase.operation, 'cuda')) return;
      const counted = countsOfCase(opCase, { device: 'meta-cuda', dtype });
      expect(counted).toEqual(countsOfCase(opCase, { device: 'cuda', dtype }));
    });
  });
});
