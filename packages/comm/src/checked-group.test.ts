import { GraphMemory, Tensor } from '@mtl/kernels';
import { expect, it } from 'vitest';
import { CheckedGroup } from './checked-group.js';

/** A group whose `start` throws an error that names the operation. */
class NamingGroup extends CheckedGroup {
  readonly engine = 'local';
  statistics(): never {
    throw new Error('not called');
  }
  close(): void {}
  protected start({ operation }: { readonly operation: string }): never {
    throw new Error(`started ${operation}`);
  }
}

it('starts nothing while a graph of device cpu is recorded, whose values are not computed yet', () => {
  const group = new NamingGroup({ name: 'world', ranks: [0, 1], worldRank: 0 });
  using memory = new GraphMemory('cpu');
  using tensor = Tensor.zeros({ shape: [4], dtype: 'float32' });
  using half = Tensor.zeros({ shape: [2], dtype: 'float32' });
  const calls = [
    () => group.allReduce(tensor),
    () => group.allGather({ output: tensor, input: half }),
    () => group.reduceScatter({ output: half, input: tensor }),
    () => group.broadcast(tensor, { root: 0 }),
    () => group.allToAll({ output: tensor, input: tensor }),
    () => group.send(tensor, { to: 1 }),
    () => group.receive(tensor, { from: 1 }),
  ];
  for (const call of calls) {
    expect(call).toThrow('started');
    expect(() => memory.capture(call)).toThrow(
      expect.objectContaining({ code: 'MTL_CAPTURE', message: expect.stringContaining('communication') }),
    );
  }
});
