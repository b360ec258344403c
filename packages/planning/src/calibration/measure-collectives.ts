import type { ProcessGroup } from '@mtl/comm';
import { matmul, Tensor } from '@mtl/kernels';
import type { MeasuredRates } from '@mtl/planner';
import { medianWithSpread } from './statistics.js';

type CollectiveEntry = NonNullable<MeasuredRates['collectives']>[number];

/** Of the whole tensor, in float32. */
const sizes = [64, 1024, 8192, 65_536, 524_288, 4_194_304, 33_554_432];

/**
 * Times collectives and messages of the processes of a group; all of them call it.
 *
 * A collective is timed as in a step: after a matmul of a millisecond, which each rank ends at a time of its
 * own, and with a tensor that was just written. From half a mebibyte on that takes two to three times as long
 * as collectives that follow each other. A message is timed alone, since a schedule says what its receiver
 * waits for.
 */
export function measureCollectives(group: ProcessGroup): CollectiveEntry[] {
  const { size, rank } = group;
  using work = new Work();
  const zeros = (bytes: number, parts = 1): Tensor =>
    Tensor.zeros({ shape: [(Math.ceil(bytes / 4 / size) * size) / parts], dtype: 'float32' });
  return [
    timed(group, 'all-reduce', (bytes) => {
      const tensor = zeros(bytes);
      return { tensors: [tensor], work, run: () => group.allReduce(tensor).wait() };
    }),
    timed(group, 'all-gather', (bytes) => {
      const output = zeros(bytes);
      const input = zeros(bytes, size);
      return { tensors: [output, input], work, run: () => group.allGather({ output, input }).wait() };
    }),
    timed(group, 'reduce-scatter', (bytes) => {
      const input = zeros(bytes);
      const output = zeros(bytes, size);
      return { tensors: [output, input], work, run: () => group.reduceScatter({ output, input }).wait() };
    }),
    timed(group, 'all-to-all', (bytes) => {
      const [output, input] = [zeros(bytes), zeros(bytes)];
      return { tensors: [output, input], work, run: () => group.allToAll({ output, input }).wait() };
    }),
    timed(group, 'message', (bytes) => {
      const tensor = zeros(bytes);
      // there and back, half of which is one message; pairs of neighbours
      const peer = rank % 2 === 0 ? rank + 1 : rank - 1;
      const hasPeer = peer < size;
      const send = (): void => group.send(tensor, { to: peer }).wait();
      const receive = (): void => group.receive(tensor, { from: peer }).wait();
      const both = rank % 2 === 0 ? [send, receive] : [receive, send];
      const run = (): void => {
        if (hasPeer) for (const each of both) each();
      };
      return { tensors: [tensor], run, part: 0.5 };
    }),
  ];
}

/** What a rank does before it communicates. */
class Work {
  readonly #left = Tensor.zeros({ shape: [256, 512], dtype: 'float32' });
  readonly #right = Tensor.zeros({ shape: [512, 512], dtype: 'float32' });
  readonly #output = Tensor.zeros({ shape: [256, 512], dtype: 'float32' });

  do(tensors: readonly Tensor[]): void {
    matmul({ left: this.#left, right: this.#right, output: this.#output });
    for (const tensor of tensors) tensor.zero();
  }

  [Symbol.dispose](): void {
    for (const tensor of [this.#left, this.#right, this.#output]) tensor.dispose();
  }
}

interface Call {
  readonly tensors: readonly Tensor[];
  /** Done before each call. */
  readonly work?: Work;
  readonly run: () => void;
  /** Of the time of a call. */
  readonly part?: number;
}

function timed(
  group: ProcessGroup,
  name: CollectiveEntry['name'],
  callOf: (bytes: number) => Call,
): CollectiveEntry {
  const points = sizes.map((bytes) => {
    const { tensors, work, run, part = 1 } = callOf(bytes);
    const numCalls = bytes > 1e6 ? 8 : 40;
    const seconds: number[] = [];
    for (let call = -2; call < numCalls; call++) {
      group.barrier().wait();
      work?.do(tensors);
      const start = performance.now();
      run();
      if (call >= 0) seconds.push((part * (performance.now() - start)) / 1000);
    }
    for (const tensor of tensors) tensor.dispose();
    const { median, spread } = medianWithSpread(seconds);
    return { bytes, seconds: Math.max(median, 1e-9), spread: Number(spread.toPrecision(3)) };
  });
  return { name, points };
}
