import { GraphMemory, numLiveTensors, Tensor, tidy } from '@mtl/kernels';
import { afterEach, describe, expect, it } from 'vitest';
import { broadcastJson } from '../src/broadcast-json.js';
import { createMeshGroups, type MetaOperation, MetaWorld, ProcessMesh } from '../src/index.js';

afterEach(() => expect(numLiveTensors()).toBe(0));

const meta = (size: number): Tensor => Tensor.empty({ shape: [size], dtype: 'bfloat16', device: 'meta' });
const values = (numbers: readonly number[]): Tensor =>
  Tensor.from(numbers, { shape: [numbers.length], dtype: 'float64' });

describe('MetaWorld', () => {
  it('is any rank of a world of any size', () => {
    const mesh = new ProcessMesh({ tp: 8, pp: 64, dp: 6 });
    const rank = mesh.rankOf({ tp: 7, cp: 0, dp: 5, pp: 62 });
    const world = new MetaWorld({ rank, size: 3072 });
    const groups = createMeshGroups(world, mesh, {
      tp: ['tp'],
      dp: ['dp'],
      pp: ['pp'],
      embedding: { axes: ['pp'], stages: [0, 63] },
    });
    expect([groups.tp.rank, groups.dp.rank, groups.pp.rank]).toEqual([7, 5, 62]);
    expect([groups.tp.size, groups.dp.size, groups.pp.size, world.group.size]).toEqual([8, 6, 64, 3072]);
    expect(groups.tp.engine).toBe('meta');
    expect(groups.embedding).toBeUndefined();
    expect(() => new MetaWorld({ rank: 8, size: 8 })).toThrow(expect.objectContaining({ code: 'MTL_GROUP' }));
  });

  it('counts what a rank sends, as rings do, and tells of each operation in order', () => {
    const told: MetaOperation[] = [];
    const { group } = new MetaWorld({ rank: 1, size: 4, onOperation: (each) => told.push(each) });
    tidy(() => {
      const [whole, part] = [meta(800), meta(200)];
      group.allReduce(whole).wait();
      group.allGather({ output: whole, input: part }).wait();
      group.reduceScatter({ output: part, input: whole }).wait();
      group.broadcast(whole, { root: 0 }).wait();
      group.broadcast(whole, { root: 2 }).wait();
      group.allToAll({ output: whole, input: meta(800) }).wait();
      const [inputSplits, outputSplits] = [
        [3, 1, 0, 4],
        [0, 1, 5, 0],
      ];
      const rows = (count: number): Tensor =>
        Tensor.empty({ shape: [count, 10], dtype: 'bfloat16', device: 'meta' });
      group.allToAll({ output: rows(6), input: rows(8), inputSplits, outputSplits }).wait();
      group.send(part, { to: 3 }).wait();
      group.receive(part, { from: 0 }).wait();
      group.barrier().wait();
      // values in host memory, with which ranks agree on something
      group.allReduce(Tensor.from([1], { shape: [1], dtype: 'float32' })).wait();
    });
    const isOnDevice = true;
    expect(told).toEqual([
      { group: 'world', operation: 'allReduce', bytes: 1600, sentBytes: 2400, isOnDevice },
      { group: 'world', operation: 'allGather', bytes: 400, sentBytes: 1200, isOnDevice },
      { group: 'world', operation: 'reduceScatter', bytes: 1600, sentBytes: 1200, isOnDevice },
      { group: 'world', operation: 'broadcast', bytes: 1600, sentBytes: 1600, isOnDevice },
      // 0 bytes, because this rank is the last of the ring
      { group: 'world', operation: 'broadcast', bytes: 1600, sentBytes: 0, isOnDevice },
      { group: 'world', operation: 'allToAll', bytes: 1600, sentBytes: 1200, isOnDevice },
      { group: 'world', operation: 'allToAll', bytes: 160, sentBytes: 140, isOnDevice },
      { group: 'world', operation: 'send', bytes: 400, sentBytes: 400, isOnDevice, peer: 3 },
      { group: 'world', operation: 'receive', bytes: 400, sentBytes: 0, isOnDevice, peer: 0 },
      { group: 'world', operation: 'barrier', bytes: 0, sentBytes: 0, isOnDevice: false },
      { group: 'world', operation: 'allReduce', bytes: 4, sentBytes: 6, isOnDevice: false },
    ]);
    const { allReduce, broadcast } = group.statistics();
    expect(allReduce).toEqual({ calls: 2, sentBytes: 2406, waitedSeconds: 0 });
    expect(broadcast).toEqual({ calls: 2, sentBytes: 1600, waitedSeconds: 0 });
  });

  it('is not part of a graph, as on GPUs', () => {
    const { group } = new MetaWorld({ rank: 1, size: 4 });
    using memory = new GraphMemory('meta-cuda');
    using tensor = Tensor.empty({ shape: [4], dtype: 'bfloat16', device: 'meta-cuda' });
    const started = group.allReduce(tensor);
    for (const body of [() => group.allReduce(tensor), () => started.wait()]) {
      expect(() => memory.capture(body)).toThrow(expect.objectContaining({ code: 'MTL_CAPTURE' }));
    }
    started.wait();
    expect(group.statistics().allReduce.calls).toBe(1);
  });

  it('tells where a rank waits for an operation', () => {
    const told: string[] = [];
    const { group } = new MetaWorld({
      rank: 1,
      size: 4,
      onOperation: ({ operation }) => told.push(operation),
      onWait: ({ operation }) => told.push(`wait for ${operation}`),
    });
    tidy(() => {
      const sum = group.allReduce(meta(4));
      const sent = group.send(meta(4), { to: 0 });
      sum.wait();
      sent.wait();
    });
    expect(told).toEqual(['allReduce', 'send', 'wait for allReduce', 'wait for send']);
  });

  it('tells of an operation when the values of the host are combined: a clock starts there', () => {
    using value = Tensor.from([3], { shape: [1], dtype: 'float32' });
    const told: number[] = [];
    const { group } = new MetaWorld({ rank: 1, size: 4, onOperation: () => told.push(...value.toArray()) });
    group.allReduce(value).wait();
    expect(told).toEqual([12]);
  });

  it('refuses what every group refuses', () => {
    const { group } = new MetaWorld({ rank: 0, size: 4 });
    tidy(() => {
      const shape = expect.objectContaining({ code: 'MTL_SHAPE' });
      expect(() => group.allGather({ output: meta(9), input: meta(2) })).toThrow(shape);
      const member = expect.objectContaining({ code: 'MTL_GROUP' });
      expect(() => group.send(meta(1), { to: 4 })).toThrow(member);
      expect(() => group.send(meta(1), { to: 0 })).toThrow(member);
    });
    expect(group.statistics().allGather.calls).toBe(0);
  });

  it('answers as if all ranks had said what this one says', () => {
    const { group } = new MetaWorld({ rank: 2, size: 3 });
    tidy(() => {
      const sum = values([1, 2]);
      group.allReduce(sum).wait();
      expect(sum.toArray()).toEqual([3, 6]);
      const most = values([1, 2]);
      group.allReduce(most, { operation: 'max' }).wait();
      expect(most.toArray()).toEqual([1, 2]);
      const gathered = values([0, 0, 0]);
      group.allGather({ output: gathered, input: values([7]) }).wait();
      expect(gathered.toArray()).toEqual([7, 7, 7]);
      const scattered = values([0]);
      group.reduceScatter({ output: scattered, input: values([1, 2, 3]) }).wait();
      expect(scattered.toArray()).toEqual([9]);
      group.allToAll({ output: gathered, input: values([1, 2, 3]) }).wait();
      expect(gathered.toArray()).toEqual([3, 3, 3]);
    });
    expect(broadcastJson(group, { some: ['value', Number.NaN] })).toEqual({ some: ['value', Number.NaN] });
  });

  it('refuses values that another rank would send', () => {
    const { group } = new MetaWorld({ rank: 2, size: 3 });
    tidy(() => {
      expect(() => group.receive(values([0]), { from: 1 })).toThrow(
        expect.objectContaining({ code: 'MTL_META', message: 'group world: values that rank 1 would send' }),
      );
    });
  });
});
