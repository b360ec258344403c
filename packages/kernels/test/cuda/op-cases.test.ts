import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  listOperations,
  memoryStatistics,
  numLiveTensors,
  openCuda,
  setPoison,
  supportsOperation,
  synchronize,
} from '../../src/index.js';
import { caseTables } from '../op-cases/case-tables.js';
import { checkParity, dtypesOf } from '../op-cases/check-parity.js';
import { cudaUnderTest } from './cuda-under-test.js';

const { skipped, title } = cudaUnderTest();
const cases = caseTables.flatMap((table) => table.cases).filter(({ benchmark }) => benchmark === undefined);

// not written yet: what is missing is listed, so that it is missed; an entry that is no longer true fails
const missing = new Set(['attention_forward', 'attention_backward', 'attention_cached_forward']);

describe.skipIf(skipped)(`kernels of device cuda (${title}) agree with the reference`, () => {
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

  for (const opCase of cases.filter(({ operation }) => !missing.has(operation))) {
    for (const dtype of dtypesOf(opCase)) {
      it(`${opCase.name} ${dtype}`, () => checkParity(opCase, dtype, 'cuda'));
    }
  }

  it('every operation has a kernel, but for those that are known to be missing', () => {
    const without = listOperations().filter(({ name }) => !supportsOperation(name, 'cuda'));
    expect(without.map(({ name }) => name).sort()).toEqual([...missing].sort());
  });
});
