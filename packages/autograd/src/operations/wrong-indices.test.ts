import { numLiveTensors, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  allocateParameters,
  crossEntropy,
  embedding,
  gatherRows,
  initializeParameter,
  linearCrossEntropy,
  Parameter,
  Tape,
  Variable,
} from '../index.js';

// 6 tokens; a vocabulary of 7 words, in a table of 8 rows; hidden size 4
const [numTokens, vocabularySize, hidden] = [6, 7, 4];

let live: number;
beforeEach(() => {
  live = numLiveTensors();
});
afterEach(() => expect(numLiveTensors()).toBe(live));

const constant = (values: readonly number[], dtype: 'int32' | 'float32'): Variable =>
  new Variable(Tensor.from(values, { shape: [values.length, 1], dtype }), { requiresGradient: false });

/**
 * Computes the losses of a linear layer, two tokens at a time. If `recording` is true, also returns the
 * gradient of the input.
 */
function linearLosses(
  labels: readonly number[],
  options: { ignoreIndex?: number; recording?: boolean } = {},
) {
  const { ignoreIndex, recording = true } = options;
  const weight = new Parameter({
    name: 'weight',
    globalShape: [vocabularySize + 1, hidden],
    initialization: { kind: 'normal', standardDeviation: 0.7 },
  });
  const storage = allocateParameters([weight], { device: 'cpu', dtype: 'float32', mainGradients: true });
  initializeParameter(weight, weight.data, 5);
  const tape = new Tape({ recording });
  const values = Array.from({ length: numTokens * hidden }, (_, index) => Math.sin(index));
  const input = tape.input(Tensor.from(values, { shape: [numTokens, 1, hidden], dtype: 'float32' }), {
    requiresGradient: true,
  });
  const all = [
    input,
    constant(labels, 'int32'),
    constant(
      labels.map(() => 0.5),
      'float32',
    ),
  ] as const;
  const [, own, weights] = all;
  let losses: Variable | undefined;
  try {
    const call = { input, weight, vocabularySize, labels: own, weights, ignoreIndex };
    losses = linearCrossEntropy(tape, { ...call, chunkBytes: 2 * 4 * (vocabularySize + 1) });
    if (recording) tape.backward(losses);
    const gradient = tape.takeGradient(input);
    const result = { losses: losses.tensor.toArray(), gradient: gradient?.toArray() };
    gradient?.dispose();
    return result;
  } finally {
    for (const variable of all) variable.release();
    losses?.release();
    tape.dispose();
    storage.dispose();
  }
}

describe('linearCrossEntropy', () => {
  it.each([
    [-1, true],
    [vocabularySize, true],
    [1_000_000_000, true],
    [-100, false],
  ])('refuses the label %d, with its place among all, recorded or not', (label, recording) => {
    const message = `labels[4] is ${label}, expected 0 to 6`;
    if (!recording) {
      // the failed call has put nothing on the tape
      expect(() => linearLosses([0, 6, 1, 2, label, 3], { recording })).toThrow(message);
      return;
    }
    expect(() => linearLosses([0, 6, 1, 2, label, 3])).toThrow(message);
    // a tape that failed in backward keeps the tensors of the failed operation
    live = numLiveTensors();
  });

  it('ignores the ignored index, and the other tokens do not notice', () => {
    const all = linearLosses([0, 6, 1, 2, 4, 3]);
    const { losses, gradient } = linearLosses([0, 6, -100, 2, -100, 3], { ignoreIndex: -100 });
    const isIgnored = (token: number): boolean => token === 2 || token === 4;
    expect(losses).toEqual(all.losses.map((loss, token) => (isIgnored(token) ? 0 : loss)));
    expect(gradient).toEqual(
      all.gradient!.map((value, index) => (isIgnored(Math.floor(index / hidden)) ? 0 : value)),
    );
  });
});

describe('crossEntropy', () => {
  const losses = (labels: readonly number[], ignoreIndex?: number): number[] => {
    const tape = new Tape({ recording: false });
    const logits = tape.input(Tensor.from([1, 2, 3, 1, 2, 3], { shape: [2, 3], dtype: 'float32' }));
    const variables = [logits, constant(labels, 'int32'), constant([1, 1], 'float32')] as const;
    try {
      const result = crossEntropy(tape, { logits, labels: variables[1], weights: variables[2], ignoreIndex });
      const values = result.tensor.toArray();
      result.release();
      return values;
    } finally {
      for (const variable of variables) variable.release();
      tape.dispose();
    }
  };

  it('refuses a label that is no class, and ignores the ignored one', () => {
    expect(() => losses([0, 3])).toThrow('labels[1] is 3, expected 0 to 2');
    expect(() => losses([-100, 0])).toThrow('labels[0] is -100, expected 0 to 2');
    expect(losses([-100, 0], -100)[0]).toBe(0);
    expect(losses([-100, 0], -100)[1]).toBe(losses([2, 0])[1]);
  });
});

describe('embedding and gatherRows', () => {
  const lookUp = (ids: readonly number[], words?: number): number => {
    const table = new Parameter({
      name: 'table',
      globalShape: [vocabularySize + 1, hidden],
      initialization: { kind: 'zeros' },
    });
    const storage = allocateParameters([table], { device: 'cpu', dtype: 'float32' });
    initializeParameter(table, table.data, 5);
    const tape = new Tape({ recording: false });
    const [first, last] = [constant([0], 'int32'), constant(ids, 'int32')];
    try {
      // the first table is for tokens; wrong ids for positions and token types fail in the same way
      embedding(tape, [{ ids: last, table, vocabularySize: words }]).release();
      const result = embedding(tape, [
        { ids: first, table },
        { ids: last, table, vocabularySize: words },
      ]);
      const { size } = result.tensor;
      result.release();
      return size;
    } finally {
      for (const variable of [first, last]) variable.release();
      tape.dispose();
      storage.dispose();
    }
  };

  it('refuse an id that is no row, or padding of the vocabulary', () => {
    expect(() => lookUp([8])).toThrow('ids[0] is 8, expected 0 to 7');
    expect(() => lookUp([-1])).toThrow('ids[0] is -1, expected 0 to 7');
    expect(() => lookUp([7], vocabularySize)).toThrow('ids[0] is 7, expected 0 to 6');
    expect(lookUp([7])).toBe(hidden);
  });

  it('refuse an index that is no row of all processes', () => {
    const tape = new Tape({ recording: false });
    const input = tape.input(Tensor.zeros({ shape: [3, 1, hidden], dtype: 'float32' }));
    const indices = constant([0, 6], 'int32');
    const gather = (place: { firstRow?: number; numRows?: number }): void =>
      gatherRows(tape, { input, indices, ...place }).release();
    expect(() => gather({})).toThrow('ids[1] is 6, expected 0 to 2');
    expect(() => gather({ firstRow: 3, numRows: 6 })).toThrow('ids[1] is 6, expected 0 to 5');
    gather({ firstRow: 3, numRows: 9 });
    for (const variable of [input, indices]) variable.release();
    tape.dispose();
  });
});
