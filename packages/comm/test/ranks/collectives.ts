import { createHash } from 'node:crypto';
import type { ProcessGroup, World } from '@mtl/comm';
import {
  bfloat16Bits,
  bytesPerElement,
  type Device,
  type DType,
  dtypes,
  float16Bits,
  newTypedArray,
  Tensor,
  type TypedArray,
} from '@mtl/kernels';

export interface CollectiveCases {
  readonly sizes: readonly number[];
  /** The dtypes to test. Default: all. */
  readonly dtypes?: readonly DType[];
  /** Names of the cases below. Default: all. */
  readonly operations?: readonly string[];
  /** The device of the tensors. Default: cpu. */
  readonly device?: Device;
}

/**
 * Runs every operation with every dtype and size. Returns a hash of each result's bits, by the name of the
 * case.
 */
export default function collectives(world: World, cases: CollectiveCases): Record<string, string> {
  const hashes: Record<string, string> = {};
  for (const dtype of cases.dtypes ?? dtypes) {
    for (const size of cases.sizes) {
      for (const [name, run] of Object.entries(operations)) {
        if (cases.operations?.includes(name) === false) continue;
        const result = run(world.group, { dtype, size, device: cases.device ?? 'cpu' });
        hashes[`${name} ${dtype} ${size}`] = computeHash(result);
        result.dispose();
      }
    }
  }
  world.group.barrier().wait();
  return hashes;
}

interface Case {
  readonly dtype: DType;
  readonly size: number;
  readonly device: Device;
}

type Run = (group: ProcessGroup, each: Case) => Tensor;

const operations: Record<string, Run> = {
  allReduceSum: (group, each) => allReduce(group, each, 'sum'),
  allReduceMax: (group, each) => allReduce(group, each, 'max'),
  allReduceMin: (group, each) => allReduce(group, each, 'min'),
  allGather: (group, { dtype, size, device }) => {
    const input = filled({ dtype, size, device }, group.rank);
    const output = Tensor.empty({ shape: [size * group.size], dtype, device });
    group.allGather({ output, input }).wait();
    input.dispose();
    return output;
  },
  allGatherInPlace: (group, { dtype, size, device }) => {
    const output = Tensor.zeros({ shape: [size * group.size], dtype, device });
    const input = output.view({ offset: size * group.rank, shape: [size] });
    input.write(values(dtype, size, group.rank));
    group.allGather({ output, input }).wait();
    input.dispose();
    return output;
  },
  reduceScatter: (group, { dtype, size, device }) => {
    const input = filled({ dtype, size: size * group.size, device }, group.rank);
    const output = Tensor.empty({ shape: [size], dtype, device });
    group.reduceScatter({ output, input }).wait();
    input.dispose();
    return output;
  },
  reduceScatterInPlace: (group, { dtype, size, device }) => {
    const input = filled({ dtype, size: size * group.size, device }, group.rank);
    const output = input.view({ offset: size * group.rank, shape: [size] });
    group.reduceScatter({ output, input, operation: 'max' }).wait();
    input.dispose();
    return output;
  },
  broadcast: (group, { dtype, size, device }) => {
    const tensor = filled({ dtype, size, device }, group.rank);
    group.broadcast(tensor, { root: group.size - 1 }).wait();
    return tensor;
  },
  allToAll: (group, { dtype, size, device }) => {
    const input = filled({ dtype, size: size * group.size, device }, group.rank);
    const output = Tensor.empty({ shape: [size * group.size], dtype, device });
    group.allToAll({ output, input }).wait();
    input.dispose();
    return output;
  },
  allToAllOfUnequalParts: (group, { dtype, size, device }) => {
    const members = group.ranks.map((_, member) => member);
    const inputSplits = members.map((to) => rowsBetween(group.rank, to, size));
    const outputSplits = members.map((from) => rowsBetween(from, group.rank, size));
    const rows = (splits: number[]): number => splits.reduce((total, each) => total + each, 0);
    const [sent, received] = [rows(inputSplits), rows(outputSplits)];
    const flat = filled({ dtype, size: 2 * sent, device }, group.rank);
    const input = flat.view({ shape: [sent, 2] });
    const output = Tensor.empty({ shape: [received, 2], dtype, device });
    group.allToAll({ output, input, inputSplits, outputSplits }).wait();
    for (const tensor of [flat, input]) tensor.dispose();
    return output;
  },
  // sends around the ring, and starts the receive before the send: a receive must never delay a send
  sendAndReceive: (group, { dtype, size, device }) => {
    const own = filled({ dtype, size, device }, group.rank);
    if (group.size === 1) return own;
    const other = Tensor.empty({ shape: [size], dtype, device });
    const received = group.receive(other, { from: (group.rank + group.size - 1) % group.size });
    const sent = group.send(own, { to: (group.rank + 1) % group.size });
    received.wait();
    sent.wait();
    own.dispose();
    return other;
  },
};

/**
 * Returns a number of rows for each pair of ranks: some parts are empty, some are larger than the average.
 */
const rowsBetween = (from: number, to: number, size: number): number =>
  Math.floor((size * ((from * 7 + to * 3 + 2) % 5)) / 3);

function allReduce(group: ProcessGroup, each: Case, operation: 'sum' | 'max' | 'min'): Tensor {
  const tensor = filled(each, group.rank);
  group.allReduce(tensor, { operation }).wait();
  return tensor;
}

function filled({ dtype, size, device }: Case, rank: number): Tensor {
  return Tensor.from(values(dtype, size, rank), { shape: [size], dtype, device });
}

/**
 * Makes values of very different magnitudes, so that another order of summation changes the bits of the sum;
 * integers overflow.
 */
function values(dtype: DType, size: number, rank: number): TypedArray {
  let state = (rank * 7919 + size * 31 + 1) >>> 0;
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state;
  };
  const array = newTypedArray(dtype, size);
  for (let index = 0; index < size; index++) {
    const bits = next();
    const value = ((bits >>> 8) / 2 ** 23 - 1) * 2 ** ((bits & 15) - 8);
    if (array instanceof BigInt64Array) array[index] = BigInt(next()) * BigInt(next()) - 2n ** 62n;
    else if (dtype === 'bfloat16') array[index] = bfloat16Bits(value);
    else if (dtype === 'float16') array[index] = float16Bits(value);
    else if (dtype === 'int32') array[index] = bits | 0;
    else if (dtype === 'uint8') array[index] = bits >>> 24;
    else array[index] = value;
  }
  return array;
}

function computeHash(tensor: Tensor): string {
  const bytes = new Uint8Array(tensor.size * bytesPerElement(tensor.dtype));
  const array = tensor.read();
  bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  return createHash('sha1').update(bytes).digest('base64').slice(0, 12);
}
