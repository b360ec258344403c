import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  listOperations,
  memoryStatistics,
  numLiveTensors,
  supportsOperation,
  synchronize,
} from '../../src/index.js';
import { findGpu, openCuda, setPoison } from '../../src/internal/index.js';
import { caseTables } from '../op-cases/case-tables.js';
import { checkParity, dtypesOf } from '../op-cases/check-parity.js';

const { problem, title } = findGpu();
const cases = caseTables.flatMap((table) => table.cases).filter(({ benchmark }) => benchmark === undefined);

describe.skipIf(problem !== undefined)(`kernels of device cuda (${title}) agree with the reference`, () => {
  beforeAll(() => {
    openCuda();
    setPoison(true);
  });
  afterAll(() => {
    setPoison(false);
    synchronize('cuda');
    expect(numLiveTensors()).toBe(0);
    expect(memoryStatistics('cuda').numAllocations).toBe(0);
  });

  for (const opCase of cases) {
    for (const dtype of dtypesOf(opCase)) {
      it(`${opCase.name} ${dtype}`, () => checkParity(opCase, dtype, 'cuda'));
    }
  }

  it('every operation has a kernel', () => {
    const without = listOperations().filter(({ name }) => !supportsOperation(name, 'cuda'));
    expect(without).toEqual([]);
  });
});
