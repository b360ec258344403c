import type { ReduceOperation, World } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';

export type InMemoryCase = keyof typeof cases;

/** Runs cases of the tests of the in-memory group, one after the other. Returns the results by name. */
export default function inMemoryCases(
  world: World,
  names: readonly InMemoryCase[],
): Partial<Record<InMemoryCase, unknown>> {
  return Object.fromEntries(names.map((name) => [name, cases[name](world)]));
}

const makeTensor = (values: readonly number[], dtype: 'float32' | 'int32' | 'bfloat16' = 'float32'): Tensor =>
  Tensor.from(values, { shape: [values.length], dtype });

const cases = {
  engine: ({ group }: World) => group.engine,
  /** Tests that results appear only in `wait`. */
  forgottenWait: ({ group, rank }: World) => {
    const tensor = makeTensor([rank]);
    const work = group.allReduce(tensor);
    const before = tensor.item();
    work.wait();
    return [before, tensor.item()];
  },
  /** Tests that inputs are copied at the start. */
  changedInput: ({ group, rank }: World) => {
    const input = makeTensor([rank + 1]);
    const output = makeTensor([0, 0]);
    const work = group.allGather({ output, input });
    input.zero();
    work.wait();
    return output.toArray();
  },
  largeIntegers: ({ group, rank }: World) => {
    const tensor = makeTensor([2 ** 24 + rank, 2 ** 31 - 1], 'int32');
    group.allReduce(tensor).wait();
    return tensor.toArray();
  },
  roundedOnce: ({ group, rank }: World) => {
    // 256 + 1 is 256 in bfloat16, and 256 + 1 + 1 is 258: rounding after every addition would lose both ones
    const tensor = makeTensor([rank === 0 ? 256 : 1], 'bfloat16');
    group.allReduce(tensor).wait();
    return tensor.toArray();
  },
  otherSize: ({ group, rank }: World) => void group.allReduce(makeTensor(rank === 0 ? [1] : [1, 2])).wait(),
  late: ({ group, rank }: World) => void (rank === 0 && group.barrier().wait()),
  statistics: ({ group, rank }: World) => {
    const tensor = makeTensor([rank, rank]);
    group.send(tensor, { to: 1 - rank });
    group.receive(tensor, { from: 1 - rank }).wait();
    group.barrier().wait();
    const { send, receive, barrier } = group.statistics();
    return [send.calls, send.sentBytes, receive.calls, receive.sentBytes, barrier.calls, tensor.toArray()];
  },
  misuse: ({ group, rank }: World) => {
    const tensor = makeTensor([1, 2, 3]);
    const codes: string[] = [];
    for (const call of [
      () => group.allGather({ output: tensor, input: tensor }),
      () => group.reduceScatter({ output: tensor, input: tensor }),
      () => group.allToAll({ output: tensor, input: tensor }),
      () => group.allToAll({ output: tensor, input: tensor, inputSplits: [1, 1], outputSplits: [1, 2] }),
      () => group.allToAll({ output: tensor, input: tensor, inputSplits: [0, 3], outputSplits: [3, 0] }),
      () => group.broadcast(tensor, { root: 2 }),
      () => group.send(tensor, { to: rank }),
      () => group.receive(tensor, { from: -1 }),
      () => group.allReduce(tensor, { operation: 'average' as ReduceOperation }),
      () => group.allReduce([1, 2] as unknown as Tensor),
    ]) {
      try {
        call();
      } catch (error) {
        codes.push((error as { code: string }).code);
      }
    }
    return codes;
  },
};
