import { attention, Tape, Variable } from '@mtl/autograd';
import type { World } from '@mtl/comm';
import { type Device, type DType, type Slice, setNumThreads, Tensor } from '@mtl/kernels';
import { setPoison } from '@mtl/kernels/internal';
import { type ContextCommunication, contextPartition } from '../../src/index.js';
import {
  type AttentionCase,
  cases,
  keyStartOf,
  outputGradientOf,
  projectionOf,
  sizes,
} from '../attention-cases.js';

/** Of the rows that were computed, in the order of the sequence. */
export interface AttendedRows {
  readonly slices: readonly Slice[];
  /** [own, B, A * D] */
  readonly output: readonly number[];
  /** [own, B, (A + 2 G) * D] */
  readonly gradient: readonly number[];
  /** That this process gave to others, by direction. */
  readonly sentBytes: { readonly forward: number; readonly backward: number };
}

/** What a process computes of a case; of all positions where it is alone. */
export function attend(
  attentionCase: AttentionCase,
  world?: World,
  communication: ContextCommunication = 'p2p',
): AttendedRows {
  const { sequenceLength, batch, numHeads } = sizes;
  const { dtype = 'float32', causal = false, windowSize, dropout, numGroups } = attentionCase;
  const partition = world && contextPartition({ group: world.group, communication: [communication] });
  // float64 is computed there alone
  const device: Device = dtype === 'float64' ? 'reference' : 'cpu';
  const slices = partition?.slices(sequenceLength) ?? [{ start: 0, end: sequenceLength }];
  const keyStart = keyStartOf(attentionCase);
  const tape = new Tape();
  const qkv = new Variable(rowsOf(projectionOf(attentionCase), slices, { dtype, device }), {
    requiresGradient: true,
  });
  const options = {
    qkv,
    numHeads,
    numGroups,
    causal,
    windowSize,
    headOffset: 3,
    keyStart: keyStart && constant(firstKeys(keyStart, partition?.keyStartSlices(sequenceLength))),
    dropout: dropout === undefined ? undefined : dropoutOf(dropout),
  };
  const sent = (): number =>
    Object.values(world?.group.statistics() ?? {}).reduce((sum, { sentBytes }) => sum + sentBytes, 0);
  const before = sent();
  const output =
    partition === undefined
      ? attention(tape, options)
      : partition.attend(tape, { ...options, layer: 0, sequenceLength });
  const between = sent();
  using outputGradient = rowsOf(outputGradientOf(), slices, { dtype, device });
  tape.backward([output], outputGradient);
  const gradient = tape.takeGradient(qkv)!;
  const result = {
    slices,
    output: output.tensor.toArray(),
    gradient: gradient.toArray(),
    sentBytes: { forward: between - before, backward: sent() - between },
  };
  tape.dispose();
  for (const variable of [qkv, output, options.keyStart, options.dropout?.samples]) variable?.release();
  gradient.dispose();
  return result;

  function firstKeys(values: Int32Array, chosen: readonly Slice[] = slices): Tensor {
    const all = chosen.flatMap(({ start, end }) =>
      Array.from({ length: batch }, (_, b) => [
        ...values.subarray(b * sequenceLength + start, b * sequenceLength + end),
      ]).flat(),
    );
    const shape = partition === undefined ? [batch, sequenceLength] : [all.length];
    return Tensor.from(Int32Array.from(all), { shape, dtype: 'int32' });
  }
}

const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });

const dropoutOf = (probability: number) => ({
  probability,
  key: [17, 4] as const,
  samples: constant(
    Tensor.from(
      BigInt64Array.from({ length: sizes.batch }, (_, sample) => BigInt(5 + sample)),
      { shape: [sizes.batch], dtype: 'int64' },
    ),
  ),
});

/** Of values [S, B, ...] those of some positions. */
function rowsOf(
  values: readonly number[],
  slices: readonly Slice[],
  options: { readonly dtype: DType; readonly device: Device },
): Tensor {
  const { sequenceLength, batch } = sizes;
  const rowSize = values.length / sequenceLength;
  const rows = slices.flatMap(({ start, end }) => values.slice(start * rowSize, end * rowSize));
  return Tensor.from(rows, { shape: [rows.length / rowSize, batch, rowSize / batch], ...options });
}

/** Every case with every way to communicate. */
export default function attendOnRanks(world: World): AttendedRows[][] {
  setNumThreads(1);
  // unwritten memory must not look right because it held the same values before
  setPoison(true);
  return cases.map((attentionCase) =>
    waysOf(attentionCase, world.size).map((communication) => attend(attentionCase, world, communication)),
  );
}

/** The ways to communicate that a case allows. */
export const waysOf = (
  { numGroups = sizes.numHeads }: AttentionCase,
  size: number,
): readonly ContextCommunication[] =>
  numGroups % size === 0 ? ['all_gather', 'p2p', 'a2a'] : ['all_gather', 'p2p'];
