import { Tensor } from '@mtl/kernels';
import { expect, it } from 'vitest';
import type { ReduceOperation } from './process-group.js';
import { SingleProcessGroup } from './single-process-group.js';

const group = new SingleProcessGroup('world');
const make = (values: number[]): Tensor => Tensor.from(values, { shape: [values.length], dtype: 'float32' });

it('copies inputs to outputs', () => {
  using input = make([1, 2]);
  using output = make([0, 0]);
  for (const start of [
    () => group.allGather({ input, output }),
    () => group.reduceScatter({ input, output, operation: 'max' }),
    () => group.allToAll({ input, output }),
  ]) {
    output.zero();
    start().wait();
    expect(output.toArray()).toEqual([1, 2]);
  }
  group.allReduce(input).wait();
  group.broadcast(input, { root: 0 }).wait();
  expect(input.toArray()).toEqual([1, 2]);
});

it('refuses what a group of several refuses', () => {
  using input = make([1, 2]);
  using longer = make([0, 0, 0]);
  const gone = make([1]);
  gone.dispose();
  const array = [1, 2] as unknown as Tensor;
  const operation = 'average' as ReduceOperation;
  const refused: ReadonlyArray<readonly [code: string, start: () => unknown]> = [
    ['MTL_ARGUMENT', () => group.allReduce(array)],
    ['MTL_ARGUMENT', () => group.allReduce(undefined as unknown as Tensor)],
    ['MTL_ARGUMENT', () => group.allReduce(input, { operation })],
    ['MTL_ARGUMENT', () => group.allGather({ input: array, output: input })],
    ['MTL_ARGUMENT', () => group.reduceScatter({ input, output: input, operation })],
    ['MTL_ARGUMENT', () => group.broadcast(array, { root: 0 })],
    ['MTL_DISPOSED_TENSOR', () => group.allReduce(gone)],
    ['MTL_GROUP', () => group.broadcast(input, { root: 1 })],
    ['MTL_GROUP', () => group.send(input, { to: 0 })],
    ['MTL_GROUP', () => group.send(input, { to: 1 })],
    ['MTL_GROUP', () => group.receive(input, { from: 0 })],
    ['MTL_GROUP', () => group.receive(input, { from: 1 })],
    ['MTL_ARGUMENT', () => group.send(array, { to: 0 })],
    ['MTL_SHAPE', () => group.allGather({ input, output: longer })],
    ['MTL_SHAPE', () => group.reduceScatter({ input: longer, output: input })],
    ['MTL_SHAPE', () => group.allToAll({ input, output: longer })],
  ];
  for (const [code, start] of refused) expect(start).toThrow(expect.objectContaining({ code }));
});
