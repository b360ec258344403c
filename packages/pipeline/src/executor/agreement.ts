import type { ProcessGroup } from '@mtl/comm';
import { ConfigurationError, UsageError } from '@mtl/errors';
import { type Device, type DType, dtypes, Tensor } from '@mtl/kernels';
import { deviceOfValues } from '@mtl/kernels/internal';
import type { PipelineSchedule } from '../schedules/pipeline-schedule.js';
import type { Stage } from '../stage.js';

interface AgreeOnPlacementOptions {
  readonly stages: ReadonlyMap<number, Pick<Stage<never>, 'isFirst' | 'isLast'>>;
  readonly group: ProcessGroup | undefined;
  readonly device: Device;
}

/**
 * Returns the rank of each chunk, in the order of the model, given the chunks of this rank. All ranks of the
 * group must call this function.
 *
 * @throws UsageError `MTL_STAGE` for a chunk whose number is not an index from 0, or whose `isFirst` or
 * `isLast` does not match its position
 * @throws ConfigurationError `MTL_PIPELINE_STAGES`, on all ranks, unless every chunk is on exactly one rank
 */
export function agreeOnPlacement({ stages, group, device }: AgreeOnPlacementOptions): readonly number[] {
  const chunks = [...stages.keys()];
  for (const chunk of chunks) {
    if (Number.isSafeInteger(chunk) && chunk >= 0) continue;
    throw new UsageError('MTL_STAGE', `unknown chunk ${chunk}`, { expected: 'chunks counted from 0' });
  }
  const combined = (values: readonly number[], operation: 'sum' | 'max'): number[] => {
    const tensor = Tensor.from(values, { shape: [values.length], dtype: 'int32', device });
    try {
      group?.allReduce(tensor, { operation }).wait();
      return tensor.toArray();
    } finally {
      tensor.dispose();
    }
  };
  const numChunks = combined([Math.max(0, ...chunks.map((chunk) => chunk + 1))], 'max')[0]!;
  const every = Array.from({ length: numChunks }, (_, chunk) => chunk);
  const rank = group?.rank ?? 0;
  const held = combined([...every.map((chunk) => (stages.has(chunk) ? 1 : 0)), 0], 'sum');
  const ranks = combined([...every.map((chunk) => (stages.has(chunk) ? rank : 0)), 0], 'sum');
  const wrong = every.find((chunk) => held[chunk] !== 1);
  if (wrong !== undefined || numChunks === 0) {
    const what = wrong === undefined ? 'no chunk' : `chunk ${wrong} of ${numChunks} on ${held[wrong]} ranks`;
    throw new ConfigurationError('MTL_PIPELINE_STAGES', `a pipeline with ${what}`, {
      expected: 'every chunk of the model on exactly one rank',
      details: { chunk: wrong, numChunks },
    });
  }
  for (const [chunk, { isFirst, isLast }] of stages) {
    if (isFirst === (chunk === 0) && isLast === (chunk === numChunks - 1)) continue;
    const claims = [isFirst ? 'the first' : '', isLast ? 'the last' : ''].filter((claim) => claim !== '');
    throw new UsageError(
      'MTL_STAGE',
      `chunk ${chunk} of ${numChunks} says that it is ${claims.join(' and ') || 'neither first nor last'}`,
      { expected: `chunk 0 to be the first, chunk ${numChunks - 1} the last` },
    );
  }
  return ranks.slice(0, numChunks);
}

/** A description of a step. All ranks of a pipeline must have the same description. */
interface StepDescription {
  readonly schedule: PipelineSchedule;
  readonly dtype: DType;
  /** For each micro-batch, the shape of its boundary tensors. */
  readonly shapes: ReadonlyArray<readonly number[]>;
}

/**
 * The number of leading dimensions that the ranks compare directly, so that an error can print them. For all
 * other dimensions, the ranks compare a digest.
 */
const shownDims = 6;

/**
 * Compares the steps that the ranks of a pipeline are about to run. Each rank communicates a few bytes, so
 * that a difference is found before any message with a wrong size is sent.
 *
 * @throws ConfigurationError `MTL_PIPELINE_MISMATCH`, on all ranks; its message names two ranks that differ
 */
export function compareSteps(
  own: StepDescription,
  options: { readonly group: ProcessGroup; readonly device: Device },
): void {
  const { group } = options;
  const device = deviceOfValues(options.device);
  const numbers = summarize(own);
  const input = Tensor.from(numbers, { shape: [numbers.length], dtype: 'int32', device });
  const output = Tensor.empty({ shape: [group.size, numbers.length], dtype: 'int32', device });
  try {
    group.allGather({ output, input }).wait();
    const all = output.toArray();
    const rows = group.ranks.map((_, rank) => all.slice(rank * numbers.length, (rank + 1) * numbers.length));
    const other = rows.findIndex((row) => `${row}` !== `${rows[0]}`);
    if (other < 0) return;
    const [first, second] = [rows[0]!, rows[other]!];
    const part = parts.find(({ from, to }) => `${first.slice(from, to)}` !== `${second.slice(from, to)}`)!;
    const says = (row: readonly number[], rank: number): string =>
      `rank ${group.ranks[rank]}${part.show === undefined ? '' : ` has ${part.show(row)}`}`;
    throw new ConfigurationError(
      'MTL_PIPELINE_MISMATCH',
      `pipeline ${group.name}: ranks differ in ${part.what}: ${says(first, 0)}, ${says(second, other)}`,
      {
        expected: 'the same on all ranks of a pipeline',
        details: { ranks: [group.ranks[0], group.ranks[other]], what: part.what },
      },
    );
  } finally {
    input.dispose();
    output.dispose();
  }
}

/**
 * The fields of a step description: each field's positions in the values that a rank sends, and its name in
 * errors.
 */
const parts: ReadonlyArray<{
  readonly what: string;
  readonly from: number;
  readonly to: number;
  readonly show?: (row: readonly number[]) => string;
}> = [
  { what: 'the number of micro-batches', from: 0, to: 1, show: (row) => `${row[0]}` },
  { what: 'the schedule', from: 1, to: 3 },
  { what: 'the dtype of boundary tensors', from: 3, to: 4, show: (row) => dtypes[row[3]!]! },
  {
    what: 'the shape of boundary tensors',
    from: 4,
    to: 5 + shownDims,
    show: (row) => `[${row.slice(5, 5 + Math.min(row[4]!, shownDims)).join(', ')}]`,
  },
  { what: 'the shapes of boundary tensors', from: 5 + shownDims, to: 7 + shownDims },
];

/** The digests of schedules; cached because a schedule has many actions and never changes. */
const digests = new WeakMap<PipelineSchedule, [number, number]>();

function computeDigest(schedule: PipelineSchedule): [number, number] {
  const known = digests.get(schedule) ?? digest(schedule.placement, schedule.actions);
  digests.set(schedule, known);
  return known;
}

function summarize({ schedule, dtype, shapes }: StepDescription): number[] {
  const { numMicroBatches } = schedule;
  const [shape = []] = shapes;
  return [
    numMicroBatches,
    ...computeDigest(schedule),
    dtypes.indexOf(dtype),
    shape.length,
    ...Array.from({ length: shownDims }, (_, dim) => shape[dim] ?? 0),
    ...digest(shapes),
  ];
}

/**
 * Returns the first eight bytes of the values' SHA-256 hash, as two int32 values. Only for Node.js: a web
 * page has one rank and nothing to compare.
 */
function digest(...values: readonly unknown[]): [number, number] {
  const { createHash } = process.getBuiltinModule('node:crypto');
  const hash = createHash('sha256').update(JSON.stringify(values)).digest();
  return [hash.readInt32LE(0), hash.readInt32LE(4)];
}
