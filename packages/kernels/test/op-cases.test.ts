import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { reportInstructionSet } from '@mtl/tooling/report-instruction-set';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  countElements,
  type DType,
  hostInformation,
  type InstructionSet,
  listOperations,
  numLiveTensors,
  setInstructionSet,
  setMatmulLibrary,
  supportsOperation,
  Tensor,
} from '../src/index.js';
import { setPoison } from '../src/internal/index.js';
import { caseTables } from './op-cases/case-tables.js';
import { disposeAll, makeTensors } from './op-cases/case-tensors.js';
import { checkParity, listDtypes, type WayToCompute } from './op-cases/check-parity.js';
import type { GradientCase, OpCase, Tensors } from './op-cases/op-case.js';

const allCases = caseTables.flatMap((table) => table.cases);
const parityCases = allCases.filter((opCase) => opCase.benchmark === undefined && !opCase.isOnlyForCuda);
const gradientCases = caseTables.flatMap((table) => table.gradientCases ?? []);

beforeAll(() => setPoison(true));
afterAll(() => {
  setPoison(false);
  setInstructionSet(hostInformation().detectedInstructionSet);
  expect(numLiveTensors()).toBe(0);
});

const available = hostInformation().usableInstructionSets;

const useKernels = (level: InstructionSet): WayToCompute => ({
  name: level,
  choose: () => {
    setInstructionSet(level);
    setMatmulLibrary('faster');
  },
});
/** Uses our own matmuls, even where oneDNN is faster. */
const useOwnMatmuls = (level: InstructionSet): WayToCompute => ({
  name: `own matmuls of ${level}`,
  choose: () => {
    setInstructionSet(level);
    setMatmulLibrary('own');
  },
});
const isMatmul = ({ operation }: OpCase): boolean => operation === 'matmul' || operation.startsWith('linear');

/** Tells whether the reference takes long: for attention, and for matmuls of hundreds of rows. */
const isSlow = ({ operation, tensors }: OpCase): boolean =>
  /^attention_(forward|backward)$/.test(operation) ||
  (operation === 'grouped_matmul' && countElements(tensors.output!.shape) > 20_000);
const withoutDirection = ({ name }: OpCase): string => name.replace(/^attention_(forward|backward) /, '');
const slowNames = [...new Set(parityCases.filter(isSlow).map(withoutDirection))];

/**
 * Returns the dtypes of a case in this run. `npm test` takes float32 and, of bfloat16 and float16, one for
 * the forward pass of attention, the other for its backward pass, which runs the forward pass first; slow
 * matmuls leave out float16, which the reference converts in software.
 */
function dtypesOfRun(opCase: OpCase): readonly DType[] {
  const dtypes = listDtypes(opCase);
  const both = dtypes.includes('bfloat16') && dtypes.includes('float16');
  if (!both || !isSlow(opCase)) return dtypes;
  const turn = slowNames.indexOf(withoutDirection(opCase)) + Number(opCase.operation.endsWith('backward'));
  const left: DType = opCase.operation === 'grouped_matmul' || turn % 2 === 0 ? 'float16' : 'bfloat16';
  return [...dtypes.filter((dtype) => dtype !== left), ...inWholeRuns(left)];
}

// the reference takes most of the time: it is computed once for all instruction sets
describe(`kernels of ${available.join(', ')} agree with the reference`, () => {
  beforeAll(() => {
    for (const level of available) reportInstructionSet(level);
  });
  afterAll(() => setMatmulLibrary('faster'));
  for (const opCase of parityCases) {
    const ways = [...available.map(useKernels), ...(isMatmul(opCase) ? available.map(useOwnMatmuls) : [])];
    for (const dtype of dtypesOfRun(opCase)) {
      it(`${opCase.name} ${dtype}`, () => checkParity(opCase, dtype, 'cpu', ways));
    }
  }
});

/** Computes d(sum of output * weights) / d(tensor) by central differences. */
function numericalGradient(
  gradientCase: GradientCase,
  tensors: Tensors,
  name: string,
  weights: number[],
): number[] {
  const tensor = tensors[name]!;
  const values = tensor.toArray();
  const output = Tensor.empty({ shape: gradientCase.outputShape, dtype: 'float64', device: 'reference' });
  const step = 1e-5;
  const projected = (index: number, value: number): number => {
    const moved = Float64Array.from(values);
    moved[index] = value;
    tensor.write(moved);
    gradientCase.forward(tensors, output);
    return output.toArray().reduce((total, element, position) => total + element * weights[position]!, 0);
  };
  const gradient = values.map(
    (value, index) => (projected(index, value + step) - projected(index, value - step)) / (2 * step),
  );
  tensor.write(Float64Array.from(values));
  output.dispose();
  return gradient;
}

describe('reference gradients agree with central differences in float64', () => {
  it.each(gradientCases.map((gradientCase) => [gradientCase.name, gradientCase] as const))(
    '%s',
    (_, gradientCase) => {
      const options = { device: 'reference', dtype: 'float64', seed: 11 } as const;
      const tensors = makeTensors(gradientCase.tensors, options);
      const { weights: outputGradient } = makeTensors(
        { weights: { shape: gradientCase.outputShape } },
        options,
      );
      const gradients = makeTensors(
        Object.fromEntries(
          gradientCase.differentiable.map((name) => [
            name,
            { shape: gradientCase.tensors[name]!.shape, values: () => 0 },
          ]),
        ),
        options,
      );
      // backward may need results of forward (statistics), so it runs on the same tensors
      const output = Tensor.empty({ shape: gradientCase.outputShape, dtype: 'float64', device: 'reference' });
      gradientCase.forward(tensors, output);
      output.dispose();
      gradientCase.backward(tensors, outputGradient!, gradients);
      const weights = outputGradient!.toArray();
      for (const name of gradientCase.differentiable) {
        const expected = numericalGradient(gradientCase, tensors, name, weights);
        gradients[name]!.toArray().forEach((value, index) => {
          // central differences of step 1e-5 in float64 are accurate to about 1e-9 for functions of this size
          expect(Math.abs(value - expected[index]!), `${name}[${index}]`).toBeLessThan(
            1e-7 * (1 + Math.abs(value)),
          );
        });
      }
      disposeAll(tensors);
      disposeAll(gradients);
      outputGradient!.dispose();
    },
  );
});

describe('support', () => {
  it('every operation has a case, a reference kernel and a CPU kernel', () => {
    const withCases = new Set(allCases.map((opCase) => opCase.operation));
    for (const { name } of listOperations()) {
      expect(withCases.has(name), `${name} has no case`).toBe(true);
      expect(supportsOperation(name, 'reference'), `${name} on reference`).toBe(true);
      expect(supportsOperation(name, 'cpu'), `${name} on cpu`).toBe(true);
    }
  });
});
