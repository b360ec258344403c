import { cast, numLiveTensors, Tensor, tidy } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { attention, splitProjection, Tape, Variable } from '../index.js';

const [sequence, batch, groups, perGroup, size] = [5, 2, 2, 3, 4];
const shape = [sequence, batch, groups * (perGroup + 2) * size];
const numValues = shape.reduce((product, length) => product * length, 1);
const numbers = Array.from({ length: numValues }, (_, index) => Math.sin(1 + index * 0.7));
const sizes = { numGroups: groups, headSize: size };

/** Returns the values of any view, in the order of its shape. */
const readValues = (view: Tensor): number[] => tidy(() => cast({ input: view, dtype: view.dtype }).toArray());

/**
 * The values of the queries, keys or values in a packed projection: in each group, the rows from `from` up
 * to, but not including, `to`.
 */
const rowsOfGroups = (projection: readonly number[], from: number, to: number): number[] =>
  Array.from({ length: numValues / ((perGroup + 2) * size) }, (_, group) => {
    const start = group * (perGroup + 2) * size;
    return projection.slice(start + from * size, start + to * size);
  }).flat();

const makeProjection = (): Variable =>
  new Variable(Tensor.from(numbers, { shape, dtype: 'float32' }), { requiresGradient: true });

/**
 * Makes a projection that backward computes again. The values of the second computation differ, to show that
 * the recipe has run.
 */
function remadeProjection(tape: Tape, source: Variable, compute: () => void): Variable {
  const make = (): Tensor => {
    compute();
    return cast({ input: source.tensor, dtype: 'float32' });
  };
  return tape.result(make(), { requiresGradient: true, recipe: { dependencies: [source], compute: make } });
}

describe('splitProjection', () => {
  let before: number;
  beforeEach(() => {
    before = numLiveTensors();
  });
  afterEach(() => {
    expect(numLiveTensors()).toBe(before);
  });

  it('returns queries, keys and values of each group, without copying', () => {
    const tape = new Tape();
    const qkv = makeProjection();
    const heads = splitProjection(tape, { qkv, ...sizes });
    expect(heads.query.tensor.shape).toEqual([sequence, batch, groups, perGroup, size]);
    expect(heads.value.tensor.shape).toEqual([sequence, batch, groups, size]);
    expect(readValues(heads.query.tensor)).toEqual(rowsOfGroups(qkv.tensor.toArray(), 0, perGroup));
    expect(readValues(heads.key.tensor)).toEqual(rowsOfGroups(qkv.tensor.toArray(), perGroup, perGroup + 1));
    qkv.tensor.zero();
    expect(readValues(heads.value.tensor).every((value) => value === 0)).toBe(true);
    for (const variable of [qkv, ...Object.values(heads)]) variable.release();
    tape.dispose();
  });

  it('has the gradients of its parts in one tensor, in their places', () => {
    const tape = new Tape();
    const qkv = makeProjection();
    const outputGradient = Tensor.from(numbers.slice(0, sequence * batch * groups * perGroup * size), {
      shape: [sequence, batch, groups * perGroup * size],
      dtype: 'float32',
    });
    const heads = splitProjection(tape, { qkv, ...sizes });
    const output = attention(tape, { ...heads, visibility: { causal: true } });
    // for comparison, the same heads as separate tensors
    const alone = [heads.query, heads.key, heads.value].map(
      ({ tensor }) => new Variable(cast({ input: tensor, dtype: 'float32' }), { requiresGradient: true }),
    );
    const [query, key, value] = alone as [Variable, Variable, Variable];
    const other = new Tape();
    const expected = attention(other, { query, key, value, visibility: { causal: true } });
    expect(output.tensor.toArray()).toEqual(expected.tensor.toArray());
    tape.backward(output, outputGradient);
    other.backward(expected, outputGradient);
    const gradient = tape.takeGradient(qkv)!;
    const bounds = [0, perGroup, perGroup + 1, perGroup + 2];
    alone.forEach((variable, at) => {
      const own = other.takeGradient(variable)!;
      expect(rowsOfGroups(gradient.toArray(), bounds[at]!, bounds[at + 1]!)).toEqual(own.toArray());
      own.dispose();
    });
    for (const variable of [qkv, output, expected, ...alone, ...Object.values(heads)]) variable.release();
    for (const tensor of [gradient, outputGradient]) tensor.dispose();
    for (const each of [tape, other]) each.dispose();
  });

  it('computes a projection once more for all of its parts', () => {
    const tape = new Tape();
    const source = makeProjection();
    const compute = vi.fn();
    const qkv = remadeProjection(tape, source, compute);
    const heads = splitProjection(tape, { qkv, ...sizes });
    const output = attention(tape, { ...heads });
    for (const variable of [qkv, ...Object.values(heads)]) variable.release();
    expect(qkv.tensor.isDisposed).toBe(true);
    expect(compute).toHaveBeenCalledTimes(1);
    const outputGradient = Tensor.zeros({ shape: output.tensor.shape, dtype: 'float32' });
    tape.backward(output, outputGradient);
    expect(compute).toHaveBeenCalledTimes(2);
    for (const variable of [source, output]) variable.release();
    tape.takeGradient(qkv)!.dispose();
    outputGradient.dispose();
    tape.dispose();
  });

  it('adds gradients of several consumers, and is 0 where a part has none', () => {
    const tape = new Tape();
    const qkv = makeProjection();
    const heads = splitProjection(tape, { qkv, ...sizes });
    const ones = (variable: Variable, factor: number): Variable => {
      const result = tape.result(cast({ input: variable.tensor, dtype: 'float32' }), {
        requiresGradient: true,
      });
      tape.record(result, () => ({
        name: 'constant gradient',
        inputs: [variable],
        parameters: [],
        saved: [],
        backward: () => {
          const { shape: like } = variable.tensor;
          const count = like.reduce((product, length) => product * length, 1);
          return [Tensor.from(new Float32Array(count).fill(factor), { shape: like, dtype: 'float32' })];
        },
      }));
      return result;
    };
    const results = [ones(heads.key, 2), ones(heads.key, 3)];
    tape.backward(results);
    const gradient = tape.takeGradient(qkv)!;
    const values = gradient.toArray();
    expect(rowsOfGroups(values, perGroup, perGroup + 1).every((value) => value === 5)).toBe(true);
    expect(rowsOfGroups(values, 0, perGroup).every((value) => value === 0)).toBe(true);
    expect(rowsOfGroups(values, perGroup + 1, perGroup + 2).every((value) => value === 0)).toBe(true);
    for (const variable of [qkv, ...results, ...Object.values(heads)]) variable.release();
    gradient.dispose();
    tape.dispose();
  });

  it('frees its gradient if backward fails before anybody took it', () => {
    const tape = new Tape();
    const qkv = makeProjection();
    const heads = splitProjection(tape, { qkv, ...sizes });
    const result = tape.result(cast({ input: heads.key.tensor, dtype: 'float32' }), {
      requiresGradient: true,
    });
    tape.record(result, () => ({
      name: 'a fault',
      inputs: [heads.key],
      parameters: [],
      saved: [],
      backward: () => {
        heads.key.newGradient().dispose();
        throw new Error('a fault in backward');
      },
    }));
    expect(() => tape.backward([result])).toThrow('a fault in backward');
    for (const variable of [qkv, result, ...Object.values(heads)]) variable.release();
    tape.dispose();
  });
});
