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
import { disposeAll, makeTensors } from '../op-cases/case-tensors.js';
import { checkParity, listDtypes } from '../op-cases/check-parity.js';
import { refusal } from '../support/refusals.js';

const { problem, title } = findGpu();
const allCases = caseTables
  .flatMap((table) => table.cases)
  .filter(({ benchmark }) => benchmark === undefined);
const cases = allCases.filter(({ isOnlyForHost }) => !isOnlyForHost);
const casesOfHost = allCases.filter(({ isOnlyForHost }) => isOnlyForHost);
/**
 * Attention at the position in a tensor, attention sinks, and AdamW with states of fewer bits, are computed
 * on the host alone.
 */
const operationsOfHost = [
  'attention_cached',
  'attention_sink_backward',
  'attention_sink_forward',
  'join_remainder',
  'precision_aware_adamw',
  'split_remainder',
];

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
    for (const dtype of listDtypes(opCase)) {
      it(`${opCase.name} ${dtype}`, () => checkParity(opCase, dtype, 'cuda'));
    }
  }

  it.each(casesOfHost)('$name is refused', (opCase) => {
    const tensors = makeTensors(opCase.tensors, { device: 'cuda', dtype: listDtypes(opCase)[0]!, seed: 7 });
    expect(refusal(() => opCase.run(tensors))).toMatch(
      /^MTL_UNSUPPORTED: \w+( has no kernel on device cuda|: a (head size of \d+ with values of \d+|soft cap of \w+) on device cuda, expected .*)/,
    );
    disposeAll(tensors);
  });

  it('every other operation has a kernel', () => {
    const without = listOperations().filter(({ name }) => !supportsOperation(name, 'cuda'));
    expect(without.map(({ name }) => name).sort()).toEqual(operationsOfHost);
  });
});
