import { MtlError } from '@mtl/errors';
import { Tensor } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import * as autograd from '../index.js';

const names = [
  ...[
    'adaptedGroupedLinear',
    'adaptedLinear',
    'attention',
    'biasDropoutResidual',
    'combineRows',
    'crossEntropy',
    'embedding',
  ],
  ...['expertActivation', 'gatherRows', 'gelu', 'groupByExpert', 'groupedBias', 'groupedLinear', 'layerNorm'],
  ...['permuteProbabilities', 'permuteRows', 'route'],
  ...['linear', 'linearCrossEntropy', 'linearGelu', 'prepareHeads', 'reshape', 'rmsNorm'],
  ...['squaredRelu', 'swiglu', 'tanh'],
];
type Operation = (...values: unknown[]) => unknown;
const operation = (name: string): Operation => (autograd as unknown as Record<string, Operation>)[name]!;
const wrong = [undefined, null, 7, '7', 'tensor', true, [], [1], {}, { tensor: '1' }, { tensor: null }];

describe.each(names)('%s', (name) => {
  it.each(wrong.map((value) => [value]))(
    'refuses %j with a code, as options, as each option, and as the tape',
    (value) => {
      const tape = new autograd.Tape();
      const every = new Proxy({}, { get: () => value });
      for (const values of [[tape, value], [tape, every], [value, every], []]) {
        let thrown: unknown = 'nothing was refused';
        try {
          operation(name)(...values);
        } catch (error) {
          thrown = error;
        }
        expect(MtlError.isInstance(thrown), String(thrown)).toBe(true);
      }
      tape.dispose();
    },
  );
});

it('names what was given', () => {
  const tape = new autograd.Tape();
  const call = operation('gelu');
  expect(() => call(tape, { input: undefined, kind: 'tanh' })).toThrow(
    "gelu: argument 1 is an object of Tape, input is undefined, kind is the string 'tanh'",
  );
  using tensor = Tensor.zeros({ shape: [2], dtype: 'float32' });
  expect(() => call(tape, { input: { tensor }, kind: 'fast' })).toThrow('GELU of kind fast');
  tape.dispose();
});
