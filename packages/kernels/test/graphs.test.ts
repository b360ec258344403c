import { afterAll, describe, expect, it } from 'vitest';
import {
  add,
  attentionCachedForward,
  GraphMemory,
  memoryStatistics,
  numLiveTensors,
  supportsGraphs,
  Tensor,
  tidy,
} from '../src/index.js';
import { graphRules, graphValueRules } from './support/graph-rules.js';

const device = 'cpu';

describe('graphs on device cpu', () => {
  const { numAllocations } = memoryStatistics(device);
  afterAll(() => {
    expect(numLiveTensors()).toBe(0);
    expect(memoryStatistics(device).numAllocations).toBe(numAllocations);
  });
  graphRules(device);
  graphValueRules(device);

  it('exist, and none on device reference', () => {
    expect(supportsGraphs(device)).toBe(true);
    expect(supportsGraphs('reference')).toBe(false);
    expect(() => new GraphMemory('reference')).toThrow(expect.objectContaining({ code: 'MTL_UNSUPPORTED' }));
  });

  it('zero tensors when they are launched', () => {
    using memory = new GraphMemory(device);
    using tensor = Tensor.from([1, 2], { shape: [2], dtype: 'float32' });
    using graph = memory.capture(() => tensor.zero());
    expect(tensor.toArray()).toEqual([1, 2]);
    graph.launch();
    expect(tensor.toArray()).toEqual([0, 0]);
  });

  it('end a launch with the error of an operation', () => {
    using memory = new GraphMemory(device);
    using caches = makeCaches();
    using position = Tensor.from([0], { shape: [1], dtype: 'int32' });
    using result = Tensor.zeros({ shape: [1, 1, 2, 4], dtype: 'float32' });
    using after = Tensor.from([1], { shape: [1], dtype: 'float32' });
    using graph = memory.capture(() => {
      attentionCachedForward({ ...caches.tensors, output: result, position });
      add({ output: after, left: after, right: after });
    });
    position.write(Int32Array.of(8));
    expect(() => graph.launch()).toThrow('position is 8, expected the 1 new positions to end at most at 8');
    expect(after.toArray()).toEqual([1]);
    position.write(Int32Array.of(-1));
    expect(() => graph.launch()).toThrow('position is -1');
    position.write(Int32Array.of(7));
    graph.launch();
    expect(after.toArray()).toEqual([2]);
  });

  it('compute attention over a cache at the position that a tensor has by then', () => {
    using memory = new GraphMemory(device);
    using position = Tensor.from([0], { shape: [1], dtype: 'int32' });
    using recorded = makeCaches();
    using executed = makeCaches();
    using output = Tensor.zeros({ shape: [1, 1, 2, 4], dtype: 'float32' });
    using graph = memory.capture(() =>
      attentionCachedForward({ ...recorded.tensors, output, position, windowSize: 3, softCap: 2 }),
    );
    for (let step = 0; step < 8; step++) {
      for (const { tensors } of [recorded, executed]) {
        for (const [index, tensor] of [tensors.query, tensors.key, tensors.value].entries()) {
          tensor.write(
            Float32Array.from({ length: tensor.size }, (_, at) => Math.sin(at + 3 * step + index)),
          );
        }
      }
      position.write(Int32Array.of(step));
      graph.launch();
      tidy(() => {
        const expected = Tensor.empty({ shape: [1, 1, 2, 4], dtype: 'float32' });
        attentionCachedForward({
          ...executed.tensors,
          output: expected,
          position: step,
          windowSize: 3,
          softCap: 2,
        });
        expect(output.toArray(), `step ${step}`).toEqual(expected.toArray());
      });
    }
    expect(recorded.tensors.keyCache.toArray()).toEqual(executed.tensors.keyCache.toArray());
  });

  it('have no logSumExp of attention at the position of a tensor', () => {
    using caches = makeCaches();
    using position = Tensor.from([0], { shape: [1], dtype: 'int32' });
    using output = Tensor.zeros({ shape: [1, 1, 2, 4], dtype: 'float32' });
    using logSumExp = Tensor.zeros({ shape: [1, 2, 1], dtype: 'float32' });
    expect(() => attentionCachedForward({ ...caches.tensors, output, logSumExp, position })).toThrow(
      'unknown operand logSumExp',
    );
  });
});

/** The operands of a step: 2 heads of 4 features, and caches of 8 positions. */
function makeCaches() {
  const zeros = (shape: readonly number[]): Tensor => Tensor.zeros({ shape, dtype: 'float32' });
  const tensors = {
    keyCache: zeros([1, 2, 8, 4]),
    valueCache: zeros([1, 2, 8, 4]),
    query: zeros([1, 1, 2, 4]),
    key: zeros([1, 1, 2, 4]),
    value: zeros([1, 1, 2, 4]),
  };
  return {
    tensors,
    [Symbol.dispose]: () => {
      for (const tensor of Object.values(tensors)) tensor.dispose();
    },
  };
}
