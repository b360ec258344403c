import { emulationCounts, hasEmulationCounts } from '@mtl/cuda-emulation/counts';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  add,
  type DeviceGraph,
  GraphMemory,
  matmul,
  memoryStatistics,
  numLiveTensors,
  sumOfSquares,
  supportsGraphs,
  synchronize,
  Tensor,
  trimMemory,
} from '../../src/index.js';
import { findGpu, openCuda } from '../../src/internal/index.js';
import { addon } from '../../src/native/addon.js';
import { graphRules, graphValueRules } from '../support/graph-rules.js';

const { problem, title } = findGpu();
const device = 'cuda';

/** Allocates 32 MiB, a separate segment. */
const large = (): Tensor => Tensor.empty({ shape: [8 << 20], dtype: 'float32', device });
/** Allocates more than any address space has. */
const tooLarge = (): Tensor => Tensor.empty({ shape: [2 ** 49], dtype: 'float32', device });

const vector = (values: readonly number[]): Tensor =>
  Tensor.from(values, { shape: [values.length], dtype: 'float32', device });

describe.skipIf(problem !== undefined)(`graphs on device cuda (${title})`, () => {
  beforeAll(() => {
    openCuda();
    // A GPU's driver loads a kernel when it is first used, which a capture may refuse: training runs execute
    // their passes once before they record them, and so does this test.
    using tensor = vector([1, 2, 3, 4]);
    using square = Tensor.zeros({ shape: [16, 16], dtype: 'float32', device });
    using result = Tensor.zeros({ shape: [16, 16], dtype: 'float32', device });
    using sum = Tensor.zeros({ shape: [1], dtype: 'float64', device });
    add({ output: tensor, left: tensor, right: tensor });
    matmul({ output: result, left: square, right: square });
    sumOfSquares({ output: sum, input: result });
  });
  afterAll(() => {
    expect(numLiveTensors()).toBe(0);
    expect(memoryStatistics(device).numAllocations).toBe(0);
  });

  graphRules(device);
  graphValueRules(device);

  it('are not made of what waits, and nothing of it is done', () => {
    using memory = new GraphMemory(device);
    using tensor = vector([1, 2, 3, 4]);
    const record = (): DeviceGraph =>
      memory.capture(() => {
        add({ output: tensor, left: tensor, right: tensor });
        synchronize(device);
      });
    expect(record).toThrow(expect.objectContaining({ code: 'MTL_CAPTURE' }));
    expect(tensor.toArray()).toEqual([1, 2, 3, 4]);
  });

  it('are recorded although memory runs short meanwhile, and keep what they have used', () => {
    using memory = new GraphMemory(device);
    using tensor = vector([1, 2, 3, 4]);
    trimMemory(device);
    // an idle segment, which is given back to the driver when memory runs out while a graph is recorded
    large().dispose();
    const { bytesReserved } = memoryStatistics(device);
    memory.run(large).dispose();
    large().dispose();
    let held = 0;
    using graph = memory.capture(() => {
      large().dispose();
      held = memoryStatistics(device).bytesInUse;
      expect(tooLarge).toThrow(expect.objectContaining({ code: 'MTL_OUT_OF_MEMORY' }));
      expect(memoryStatistics(device).bytesReserved).toBe(bytesReserved);
      add({ output: tensor, left: tensor, right: tensor });
    });
    // the segment that the graph may use is reserved for it
    expect(memoryStatistics(device).bytesInUse).toBe(held);
    graph.launch();
    expect(tensor.toArray()).toEqual([2, 4, 6, 8]);
  });

  it.each([
    ['MTL_CUDA', 'MTL_CAPTURE'],
    ['MTL_OUT_OF_MEMORY', 'MTL_OUT_OF_MEMORY'],
  ])('are refused where the driver makes none (%s), and the next one is recorded', (refusal, code) => {
    using memory = new GraphMemory(device);
    using tensor = vector([1, 2, 3, 4]);
    const record = (): DeviceGraph =>
      memory.capture(() => add({ output: tensor, left: tensor, right: tensor }));
    const endCapture = vi.spyOn(addon(), 'endCapture').mockImplementationOnce((of) => {
      addon().endCapture(of, false);
      throw Object.assign(new Error('cudaGraphInstantiate: refused'), { code: refusal });
    });
    expect(record).toThrow(expect.objectContaining({ code, message: 'cudaGraphInstantiate: refused' }));
    endCapture.mockRestore();
    using graph = record();
    graph.launch();
    expect(tensor.toArray()).toEqual([2, 4, 6, 8]);
  });

  it('are refused where the driver does not begin to record', () => {
    using memory = new GraphMemory(device);
    using tensor = vector([1, 2, 3, 4]);
    const record = (): DeviceGraph =>
      memory.capture(() => add({ output: tensor, left: tensor, right: tensor }));
    vi.spyOn(addon(), 'beginCapture').mockImplementationOnce(() => {
      throw Object.assign(new Error('cudaStreamBeginCapture: refused'), { code: 'MTL_CUDA' });
    });
    expect(record).toThrow(expect.objectContaining({ code: 'MTL_CAPTURE' }));
    using graph = record();
    graph.launch();
    expect(tensor.toArray()).toEqual([2, 4, 6, 8]);
  });

  it('exist', () => expect(supportsGraphs(device)).toBe(true));

  it.skipIf(!hasEmulationCounts)('are one thing to enqueue, whatever they hold', () => {
    using memory = new GraphMemory(device);
    using tensor = vector([1, 2, 3, 4]);
    using graph = memory.capture(() => {
      for (let i = 0; i < 10; i++) add({ output: tensor, left: tensor, right: tensor });
    });
    const before = emulationCounts();
    graph.launch();
    const after = emulationCounts();
    expect(after.enqueued - before.enqueued).toBe(1);
    expect(after.graphLaunches - before.graphLaunches).toBe(1);
    expect(after.kernels).toBe(before.kernels);
    expect(tensor.toArray()).toEqual([1024, 2048, 3072, 4096]);
  });
});
