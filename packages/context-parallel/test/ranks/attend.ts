import { attention, Parameter, splitProjection, Tape, Variable, type VisibilityOptions } from '@mtl/autograd';
import type { World } from '@mtl/comm';
import { type Device, type DType, setNumThreads, Tensor } from '@mtl/kernels';
import { setPoison } from '@mtl/kernels/internal';
import type { PackedSamplesOfBatch } from '@mtl/layout';
import { type ContextCommunication, type ContextLevels, contextPartition } from '../../src/index.js';
import {
  type AttentionCase,
  cases,
  makeKeyStart,
  makeOutputGradient,
  makeProjection,
  sizes,
} from '../attention-cases.js';

/** The rows that a process has computed. */
export interface AttendedRows {
  /** The indices of the rows in [S, B]. */
  readonly indices: readonly number[];
  /** [own, B, A * D] */
  readonly output: readonly number[];
  /** [own, B, (A + 2 G) * D] */
  readonly gradient: readonly number[];
  /** [A]: the part of these rows in the gradient of the sinks; empty without sinks. */
  readonly sinksGradient: readonly number[];
  /** The bytes that this process sent to others in each direction. */
  readonly sentBytes: { readonly forward: number; readonly backward: number };
}

/** Computes a case on one process of a group, or all its positions if the process is alone. */
export function attend(
  attentionCase: AttentionCase,
  world?: World,
  communication: ContextCommunication = 'p2p',
): AttendedRows {
  const { sequenceLength, batch, numHeads } = sizes;
  const { dtype = 'float32', causal = false, windowSize, dropout, numGroups } = attentionCase;
  const levels = world && communication === 'a2a+p2p' ? makeLevels(world) : undefined;
  const partition = world && contextPartition({ group: world.group, communication: [communication], levels });
  // only the reference device computes in float64
  const device: Device = dtype === 'float64' ? 'reference' : 'cpu';
  const numbers = (count: number) => Float64Array.from({ length: count }, (_, at) => firstSample + at);
  const numRows = sequenceLength * batch;
  const starts = attentionCase.packed && computeStarts(attentionCase.packed);
  const keyStart = makeKeyStart(attentionCase);
  const own =
    starts === undefined
      ? partition?.ofSequences(
          { sequenceLength, batchSize: batch, sampleNumbers: numbers(batch), keyStart },
          { device },
        )
      : partition?.ofPackedSamples(packedSamples(starts, { numRows, numbers }), { device });
  const indices = own?.indices ?? Int32Array.from({ length: numRows }, (_, row) => row);
  const columns = starts === undefined ? batch : 1;
  const tape = new Tape();
  const qkv = new Variable(selectRows(makeProjection(attentionCase), { indices, columns, dtype, device }), {
    requiresGradient: true,
  });
  const heads = splitProjection(tape, { qkv, numGroups: numGroups ?? numHeads, headSize: sizes.headSize });
  const sinks = attentionCase.sinks && makeSinks(dtype, device);
  const options = {
    ...heads,
    headOffset: 3,
    sinks: sinks && { weight: sinks },
    dropout:
      dropout === undefined
        ? undefined
        : makeDropout(dropout, numbers((starts?.length ?? 1 + batch) - 1), device),
  };
  const visibility = { causal, windowSize };
  const masks: Masks = own === undefined ? makeMasks(attentionCase, device) : {};
  const sent = (): number =>
    [world?.group, levels?.heads, levels?.ring]
      .flatMap((group) => Object.values(group?.statistics() ?? {}))
      .reduce((sum, { sentBytes }) => sum + sentBytes, 0);
  const before = sent();
  const output =
    own === undefined
      ? attention(tape, { ...options, visibility: { ...visibility, ...masks } })
      : own.attend(tape, { ...options, visibility, layer: 0 });
  const between = sent();
  using outputGradient = selectRows(makeOutputGradient(), { indices, columns, dtype, device });
  tape.backward([output], outputGradient);
  const gradient = tape.takeGradient(qkv)!;
  const result = {
    indices: [...indices],
    output: output.tensor.toArray(),
    gradient: gradient.toArray(),
    sinksGradient: sinks?.mainGradient.toArray() ?? [],
    sentBytes: { forward: between - before, backward: sent() - between },
  };
  tape.dispose();
  for (const tensor of [sinks?.data, sinks?.mainGradient]) tensor?.dispose();
  for (const variable of [...Object.values(heads), qkv, output]) variable.release();
  for (const variable of [masks.keyStart, masks.packed?.starts, options.dropout?.samples])
    variable?.release();
  gradient.dispose();
  own?.release();
  return result;
}

/** The number of the first sample, for random masks. */
const firstSample = 5;

const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });

const makeDropout = (probability: number, samples: Float64Array, device: Device) => ({
  probability,
  key: [17, 4] as const,
  samples: constant(
    Tensor.from(BigInt64Array.from(Array.from(samples, BigInt)), {
      shape: [samples.length],
      dtype: 'int64',
      device,
    }),
  ),
});

/** Returns [0, l0, l0 + l1, ...]. */
function computeStarts(lengths: readonly number[]): Int32Array {
  const starts = new Int32Array(lengths.length + 1);
  lengths.forEach((length, sample) => {
    starts[sample + 1] = starts[sample]! + length;
  });
  return starts;
}

/** Returns trained scores of sinks, with a gradient of zeros. */
function makeSinks(dtype: DType, device: Device): Parameter {
  const shape = [sizes.numHeads];
  const weight = new Parameter({
    name: 'sinks',
    globalShape: shape,
    initialization: { kind: 'zeros' },
  });
  weight.assignData(Tensor.from([0.5, -1, 2, 0.25], { shape, dtype, device }));
  const gradient = dtype === 'float64' ? 'float64' : 'float32';
  weight.assignMainGradient(Tensor.zeros({ shape, dtype: gradient, device }));
  return weight;
}

type Masks = Pick<VisibilityOptions, 'keyStart' | 'packed'>;

/** Returns the masks that separate samples or documents if one process computes all of the rows. */
function makeMasks(attentionCase: AttentionCase, device: Device): Masks {
  const { sequenceLength, batch } = sizes;
  const int32 = (values: Int32Array, shape: readonly number[]): Variable =>
    constant(Tensor.from(values, { shape, dtype: 'int32', device }));
  const { packed } = attentionCase;
  const keyStart = makeKeyStart(attentionCase);
  return {
    keyStart: keyStart && int32(keyStart, [batch, sequenceLength]),
    packed: packed && {
      starts: int32(computeStarts(packed), [packed.length + 1]),
      longest: Math.max(...packed),
      numScores: packed.reduce((sum, length) => sum + length ** 2, 0),
    },
  };
}

/** Selects rows of `values`, as [own, columns, W]. */
function selectRows(
  values: readonly number[],
  options: {
    readonly indices: Int32Array;
    readonly columns: number;
    readonly dtype: DType;
    readonly device: Device;
  },
): Tensor {
  const { indices, columns, dtype, device } = options;
  const width = values.length / (sizes.sequenceLength * sizes.batch);
  const rows = Array.from(indices, (index) => values.slice(index * width, (index + 1) * width)).flat();
  return Tensor.from(rows, { shape: [indices.length / columns, columns, width], dtype, device });
}

/** Computes every case with every way to communicate. */
export default function attendOnRanks(world: World): AttendedRows[][] {
  setNumThreads(1);
  // poisons new memory, so that an unwritten result is not right by chance from earlier contents
  setPoison(true);
  return cases.map((attentionCase) =>
    listWays(attentionCase, world.size).map((communication) => attend(attentionCase, world, communication)),
  );
}

/** Makes the levels of `a2a+p2p`, with blocks of two processes. */
function makeLevels(world: World): ContextLevels {
  const all = Array.from({ length: world.size }, (_, rank) => rank);
  const openGroup = (name: string, findPlace: (rank: number) => number) =>
    world.createGroup({ name, ranks: all.filter((rank) => findPlace(rank) === findPlace(world.rank)) });
  return {
    heads: openGroup('heads', (rank) => Math.floor(rank / 2)),
    ring: openGroup('ring', (rank) => rank % 2),
  };
}

/** Returns the kinds of communication that a case allows. */
export const listWays = (
  { numGroups = sizes.numHeads }: AttentionCase,
  size: number,
): readonly ContextCommunication[] => [
  ...(['all_gather', 'p2p'] as const),
  ...(numGroups % size === 0 ? (['a2a'] as const) : []),
  ...(size > 2 && numGroups % 2 === 0 ? (['a2a+p2p'] as const) : []),
];

function packedSamples(
  starts: Int32Array,
  {
    numRows,
    numbers,
  }: { readonly numRows: number; readonly numbers: (count: number) => Float64Array<ArrayBuffer> },
): PackedSamplesOfBatch {
  const lengths = Array.from(starts.subarray(1), (end, sample) => end - starts[sample]!);
  return {
    numRows,
    starts,
    sampleNumbers: numbers(lengths.length),
    longest: Math.max(...lengths),
    numScores: lengths.reduce((sum, length) => sum + length ** 2, 0),
  };
}
