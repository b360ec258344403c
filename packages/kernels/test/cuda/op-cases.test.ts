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

  // Hopper has a second kind of backward pass; elsewhere, these are the same kernels again. Not where a run
  // on a GPU has found that one hangs (tooling/cuda/stages.mjs).
  const { MTL_CUDA_ATTENTION: chosen = '', MTL_TEST_FUSED_BACKWARD: fused } = process.env;
  const isFusedTested = chosen === '' && fused !== 'off';
  for (const opCase of cases.filter(
    ({ operation }) => isFusedTested && operation.endsWith('attention_backward'),
  )) {
    for (const dtype of dtypesOf(opCase).filter((each) => each !== 'float32')) {
      it(`${opCase.name} ${dtype}, fused backward`, () => {
        process.env.MTL_CUDA_ATTENTION = 'fused-backward';
        try {
          checkParity(opCase, dtype, 'cuda');
        } finally {
          delete process.env.MTL_CUDA_ATTENTION;
        }
      });
    }
  }

  it('every operation has a kernel', () => {
    const without = listOperations().filter(({ name }) => !supportsOperation(name, 'cuda'));
    expect(without).toEqual([]);
  });
});
