// Operations for compute-sanitizer, called as training runs call them, in a separate process (vitest starts
// more processes): the largest case of each operation, once alone and once as a graph, compared with the
// reference. Exits with 1 if a result is wrong; the sanitizer reports its own findings.
import { GraphMemory, memoryStatistics, numLiveTensors, synchronize, trimMemory } from '../../src/index.js';
import { openCuda } from '../../src/internal/index.js';
import { caseTables } from '../op-cases/case-tables.js';
import { disposeAll, makeTensors } from '../op-cases/case-tensors.js';
import { listDtypes } from '../op-cases/check-parity.js';
import { compareOutputs } from '../op-cases/compare-outputs.js';
import type { OpCase, Tensors } from '../op-cases/op-case.js';

const { devices, deviceIndex } = openCuda();
console.log(`device cuda: ${devices[deviceIndex]?.name}`);
const tests = caseTables
  .flatMap((table) => table.cases)
  .filter(({ benchmark, isOnlyForHost }) => benchmark === undefined && !isOnlyForHost);
const countElements = ({ tensors }: OpCase): number =>
  Object.values(tensors).reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
// among cases of equal size the first: later ones omit operands
const bySize = [...tests].reverse().sort((a, b) => countElements(a) - countElements(b));
const largestOfEach = new Map(bySize.map((opCase) => [opCase.operation, opCase]));
/** Operations that compute on the host. */
const notForGraphs = ['philox_normal'];

function runAsGraph(run: () => void): void {
  using memory = new GraphMemory('cuda');
  using graph = memory.capture(run);
  graph.launch();
  synchronize('cuda');
}

/** Returns the difference between a case that was run in some way on device cuda and on the reference. */
function check(opCase: OpCase, way: (run: () => void) => void): string | undefined {
  // bfloat16 if a case has it: operands of 16 bits go through the matrix units
  const dtype = listDtypes(opCase).find((name) => name === 'bfloat16') ?? listDtypes(opCase)[0]!;
  const make = (device: 'cuda' | 'reference'): Tensors =>
    makeTensors(opCase.tensors, { device, dtype, seed: 7 });
  const [expected, actual] = [make('reference'), make('cuda')];
  try {
    opCase.run(expected);
    way(() => opCase.run(actual));
    return compareOutputs(opCase, dtype, { actual, expected });
  } finally {
    disposeAll(expected);
    disposeAll(actual);
  }
}

const ways = { alone: (run: () => void): void => run(), 'as a graph': runAsGraph };
let numWrong = 0;
for (const opCase of largestOfEach.values()) {
  for (const [name, way] of Object.entries(ways)) {
    if (way === runAsGraph && notForGraphs.includes(opCase.operation)) continue;
    const wrong = check(opCase, way);
    if (wrong !== undefined) numWrong++;
    // printed immediately: a run that is aborted has printed its results so far
    console.log(
      `${wrong === undefined ? 'ok  ' : 'FAIL'} ${opCase.name}, ${name}${wrong ? `: ${wrong}` : ''}`,
    );
  }
}
trimMemory('cuda');
const isClean = numLiveTensors() === 0 && memoryStatistics('cuda').numAllocations === 0;
console.log(`${largestOfEach.size} operations, ${numWrong} wrong${isClean ? '' : ', memory left over'}`);
process.exitCode = numWrong === 0 && largestOfEach.size > 0 && isClean ? 0 : 1;
