import { Tape } from '@mtl/autograd';
import { MtlError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import * as operations from './index.js';

const names = [
  ...['columnParallelLinear', 'columnParallelLinearGelu', 'gatherRows', 'rowParallelLinear'],
  ...['vocabularyParallelCrossEntropy', 'vocabularyParallelEmbedding'],
];
const wrong = [undefined, null, 7, '7', true, [], [1], {}, { tensor: '1' }, { group: null }];

describe.each(names)('%s', (name) => {
  const operation = (operations as unknown as Record<string, (...values: unknown[]) => unknown>)[name]!;

  it.each(wrong.map((value) => [value]))('refuses %j with a code, as options and as each option', (value) => {
    const tape = new Tape();
    const every = new Proxy({}, { get: (_, key) => (key === 'tensorParallel' ? undefined : value) });
    for (const values of [
      [tape, value],
      [tape, every],
      [tape, { tensorParallel: value }],
      [value, every],
      [],
    ]) {
      let thrown: unknown = 'nothing was refused';
      try {
        operation(...values);
      } catch (error) {
        thrown = error;
      }
      expect(MtlError.isInstance(thrown), String(thrown)).toBe(true);
    }
    tape.dispose();
  });
});
