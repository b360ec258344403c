import { afterAll, describe, expect, it } from 'vitest';
import {
  countElements,
  hostInformation,
  type InstructionSet,
  setInstructionSet,
  setMatmulLibrary,
} from '../src/index.js';
import { caseTables } from './op-cases/case-tables.js';
import { disposeAll, makeTensors } from './op-cases/case-tensors.js';
import { listDtypes } from './op-cases/check-parity.js';
import type { OpCase } from './op-cases/op-case.js';

const { usableInstructionSets: usable, isWebAssembly } = hostInformation();
/** Instruction sets whose kernels compute the same sums in the same order, and round as often. */
const pairs = [isWebAssembly ? ['simd128', 'plain'] : ['sse4', 'plain']] as const;

const cases = caseTables
  .flatMap((table) => table.cases)
  .filter((one) => one.benchmark === undefined && !one.isOnlyForCuda)
  .filter(({ tensors }) => Object.values(tensors).every(({ shape }) => countElements(shape) < 20_000));

afterAll(() => {
  setMatmulLibrary('faster');
  setInstructionSet(usable[0]!);
});

/** Returns the values of all tensors after a case was computed by the kernels of an instruction set. */
function compute(set: InstructionSet, one: OpCase, dtype: ReturnType<typeof listDtypes>[number]) {
  setInstructionSet(set);
  const tensors = makeTensors(one.tensors, { device: 'cpu', dtype, seed: 7 });
  try {
    one.run(tensors);
    return Object.entries(tensors).map(([name, tensor]) => [name, tensor.toArray()] as const);
  } finally {
    disposeAll(tensors);
  }
}

describe.skipIf(!pairs.flat().every((set) => usable.includes(set))).each(pairs)('%s and %s', (one, other) => {
  it.each(['float32', 'bfloat16', 'float16'] as const)('have the same bits in %s', (dtype) => {
    setMatmulLibrary('own');
    const compared = cases.filter((each) => listDtypes(each).includes(dtype));
    expect(compared.length).toBeGreaterThan(100);
    for (const each of compared)
      expect(compute(one, each, dtype), each.name).toEqual(compute(other, each, dtype));
  });
});
