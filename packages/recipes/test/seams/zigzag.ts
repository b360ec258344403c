import { attention, type Tape, type Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import type { SequencePartition } from '@mtl/models';

/**
 * Each of n ranks owns two slices of 2 n, one from either end of the sequence, so that causal attention is
 * the same work for all. For tests: every rank gathers the projections of all positions, computes their
 * attention and takes its own; what it adds to the gradients of others' keys and values is summed.
 */
export function zigzag(group: ProcessGroup): SequencePartition {
  const numSlices = 2 * group.size;
  const slicesOf = (rank: number, length: number) =>
    [rank, numSlices - 1 - rank].map((slice) => ({
      start: (slice * length) / numSlices,
      end: ((slice + 1) * length) / numSlices,
    }));
  const positionsOf = (rank: number, length: number): Int32Array =>
    Int32Array.from(
      slicesOf(rank, length).flatMap(({ start, end }) =>
        Array.from({ length: end - start }, (_, index) => start + index),
      ),
    );
  return {
    slices: (length) => slicesOf(group.rank, length),
    attend: (tape, { sequenceLength, qkv, keyStart, ...call }) => {
      const byRank = group.ranks.map((_, rank) => positionsOf(rank, sequenceLength!));
      const all = gathered(tape, qkv, { group, byRank });
      const starts = keyStart && gatheredStarts(keyStart.tensor, { group, byRank });
      const whole = attention(tape, {
        ...call,
        qkv: all,
        keyStart: starts && tape.input(starts),
      });
      return rowsOf(tape, whole, byRank[group.rank]!);
    },
  };
}

interface Owners {
  readonly group: ProcessGroup;
  /** The positions of each rank. */
  readonly byRank: readonly Int32Array[];
}

/** The rows of all ranks, with their positions in the sequence. */
const rowsOfAll = (byRank: readonly Int32Array[]) =>
  byRank.flatMap((positions, rank) => Array.from(positions, (position, row) => ({ rank, position, row })));

/** [own, B, W] of this rank to [S, B, W]; the gradients that all ranks compute of it are summed. */
function gathered(tape: Tape, input: Variable, { group, byRank }: Owners): Variable {
  const { shape, dtype, size } = input.tensor;
  const own = byRank[group.rank]!;
  const rowSize = size / own.length;
  const wholeShape = [own.length * group.size, ...shape.slice(1)];
  using parts = Tensor.empty({ shape: [group.size * size], dtype });
  group.allGather({ output: parts, input: input.tensor }).wait();
  const values = parts.read<'float32'>();
  const whole = new Float32Array(values.length);
  for (const { rank, position, row } of rowsOfAll(byRank)) {
    const start = rank * size + row * rowSize;
    whole.set(values.subarray(start, start + rowSize), position * rowSize);
  }
  const output = tape.result(Tensor.from(whole, { shape: wholeShape, dtype }), {
    requiresGradient: input.requiresGradient,
  });
  tape.record(output, () => ({
    name: 'gathered positions',
    inputs: [input],
    parameters: [],
    saved: [],
    backward: ({ outputGradient }) => {
      using sum = Tensor.from(outputGradient!.read<'float32'>(), { shape: wholeShape, dtype });
      group.allReduce(sum).wait();
      return [ownRows(sum, own)];
    },
  }));
  return output;
}

/** keyStart [B, own] of every rank as [B, S]. */
function gatheredStarts(input: Tensor, { group, byRank }: Owners): Tensor {
  const [batch, own] = input.shape as [number, number];
  using parts = Tensor.empty({ shape: [group.size * input.size], dtype: 'int32' });
  group.allGather({ output: parts, input }).wait();
  const values = parts.read<'int32'>();
  const length = own * group.size;
  const whole = new Int32Array(values.length);
  for (const { rank, position, row } of rowsOfAll(byRank)) {
    for (let b = 0; b < batch; b++) whole[b * length + position] = values[(rank * batch + b) * own + row]!;
  }
  return Tensor.from(whole, { shape: [batch, length], dtype: 'int32' });
}

function ownRows(tensor: Tensor, positions: Int32Array): Tensor {
  const { shape, dtype, size } = tensor;
  const rowSize = size / shape[0]!;
  const values = tensor.read<'float32'>();
  const own = new Float32Array(positions.length * rowSize);
  for (const [row, position] of positions.entries()) {
    own.set(values.subarray(position * rowSize, (position + 1) * rowSize), row * rowSize);
  }
  return Tensor.from(own, { shape: [positions.length, ...shape.slice(1)], dtype });
}

/** The rows of these positions. */
function rowsOf(tape: Tape, input: Variable, positions: Int32Array): Variable {
  const { shape, dtype, size } = input.tensor;
  const rowSize = size / shape[0]!;
  const output = tape.result(ownRows(input.tensor, positions), { requiresGradient: input.requiresGradient });
  tape.record(output, () => ({
    name: 'rows of positions',
    inputs: [input],
    parameters: [],
    saved: [],
    backward: ({ outputGradient }) => {
      const values = outputGradient!.read<'float32'>();
      const whole = new Float32Array(size);
      for (const [row, position] of positions.entries()) {
        whole.set(values.subarray(row * rowSize, (row + 1) * rowSize), position * rowSize);
      }
      return [Tensor.from(whole, { shape, dtype })];
    },
  }));
  return output;
}
