import { emulationCounts, hasEmulationCounts } from '@mtl/cuda-emulation/counts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  add,
  DeviceMark,
  embeddingForward,
  GraphMemory,
  memoryStatistics,
  numLiveTensors,
  supportsMarks,
  synchronize,
  Tensor,
} from '../../src/index.js';
import { findGpu, openCuda } from '../../src/internal/index.js';
import { refusal } from '../support/refusals.js';

const { problem, title } = findGpu();
const device = 'cuda';
const vector = (values: readonly number[]): Tensor =>
  Tensor.from(values, { shape: [values.length], dtype: 'float32', device });

describe.skipIf(problem !== undefined)(`a read that is started (${title})`, () => {
  beforeAll(() => void openCuda());
  afterAll(() => {
    expect(numLiveTensors()).toBe(0);
    expect(memoryStatistics(device).numAllocations).toBe(0);
  });

  it('has the elements as they were then, whatever is enqueued or disposed of later', () => {
    const total = vector([1, 2, 3]);
    using one = vector([1, 1, 1]);
    const reads = [0, 1, 2].map(() => {
      add({ output: total, left: total, right: one });
      return total.startRead<'float32'>();
    });
    total.zero();
    total.dispose();
    expect(reads.map((read) => [...read.read()])).toEqual([
      [2, 3, 4],
      [3, 4, 5],
      [4, 5, 6],
    ]);
    for (const read of reads) read.dispose();
    expect(() => reads[0]!.read()).toThrow(expect.objectContaining({ code: 'MTL_MARK' }) as Error);
  });

  it.skipIf(!hasEmulationCounts)('waits when it is read, once', () => {
    using values = vector([1]);
    using _ = values.startRead(); // takes pinned memory from the driver
    const counts = () => {
      const { synchronizations, copiesToHost, memoryCalls } = emulationCounts();
      return { synchronizations, copiesToHost, memoryCalls };
    };
    const before = counts();
    using read = values.startRead();
    expect(counts()).toEqual({ ...before, copiesToHost: before.copiesToHost + 1 });
    read.read();
    read.read();
    expect(counts().synchronizations).toBe(before.synchronizations + 1);
  });

  it('reports indices out of range that operations before it have read, and none of later ones', () => {
    const reads = [1, 7, 2, -1].map((id) => {
      using ids = Tensor.from([id], { shape: [1], dtype: 'int32', device });
      using table = Tensor.from([0, 1, 2, 3, 4, 5, 6], { shape: [7, 1], dtype: 'float32', device });
      using output = Tensor.empty({ shape: [1, 1], dtype: 'float32', device });
      embeddingForward({ output, ids, table });
      return output.startRead<'float32'>();
    });
    const [good, wrong, later, last] = reads.map((read) => () => [...read.read()]);
    // all copies are complete when the last one has been read
    expect(refusal(last!)).toMatch(/^MTL_INDEX: embedding_forward: ids\[0\] is -1,/);
    expect(later!).not.toThrow();
    expect(good!).not.toThrow();
    expect(refusal(wrong!)).toMatch(/^MTL_INDEX: embedding_forward: ids\[0\] is 7,/);
    synchronize(device);
    for (const read of reads) read.dispose();
  });

  it('measures the time of the device between two marks', () => {
    using first = new DeviceMark(device);
    using values = vector(new Array<number>(1 << 16).fill(1));
    for (let time = 0; time < 20; time++) add({ output: values, left: values, right: values });
    using second = new DeviceMark(device);
    const milliseconds = second.millisecondsSince(first);
    expect(milliseconds).toBeGreaterThan(0);
    synchronize(device);
    expect(second.millisecondsSince(first)).toBe(milliseconds);
  });

  it('is no part of a graph, and is for devices with marks alone', () => {
    using values = vector([1]);
    using memory = new GraphMemory(device);
    for (const body of [() => values.startRead(), () => new DeviceMark(device)]) {
      expect(() => memory.capture(() => void body())).toThrow(
        expect.objectContaining({ code: 'MTL_CAPTURE' }) as Error,
      );
    }
    expect([supportsMarks(device), supportsMarks('cpu'), supportsMarks('meta-cuda')]).toEqual([
      true,
      false,
      false,
    ]);
    using onHost = Tensor.zeros({ shape: [1], dtype: 'float32' });
    expect(() => onHost.startRead()).toThrow(expect.objectContaining({ code: 'MTL_UNSUPPORTED' }) as Error);
  });
});
