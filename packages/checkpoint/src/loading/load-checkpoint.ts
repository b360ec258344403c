import { CheckpointError, nearestName } from '@mtl/errors';
import { intersectSlices, type LogicalTensor } from '@mtl/layout';
import type { Checkpoint } from '../checkpoints/checkpoint.js';
import { RunReader } from '../files/run-reader.js';
import { planRuns } from '../tensors/box-runs.js';
import { dtypeBytes } from '../tensors/dtype.js';
import { bytesOfSlices, checkLogicalTensors, fillTensor } from '../tensors/logical-tensor.js';
import { slicesFromStored } from '../tensors/stored-slices.js';
import { ShardCache } from './shard-cache.js';
import { verifyUnread } from './verify-checkpoint.js';

/** The byte counts of a load. */
interface LoadResult {
  /** The number of bytes written to the tensors. */
  readonly bytesLoaded: number;
  /**
   * The number of bytes read from the shards. It exceeds `bytesLoaded` if checksums require complete blocks.
   */
  readonly bytesRead: number;
}

// The maximum number of tensors that an error lists: a longer list would hide the explanation.
const listed = 10;

/**
 * Loads `tensors` from a checkpoint, whatever layout saved it. Every box is assembled from the stored boxes
 * that intersect it. The values are exact, because bytes are copied and never converted. Only the required
 * blocks are read. Loading needs 16 MiB of memory, plus the size of the largest box whose tensor has no
 * `withMemory`.
 *
 * The load is strict. Three kinds of mismatch are errors, found before anything is written: a missing tensor,
 * a tensor in the checkpoint that was not requested, and a tensor with a different dtype or shape. If reading
 * fails later, the tensors contain a mixture of old and new values.
 *
 * @param options.ignore names in the checkpoint that are not loaded, such as optimizer states in a
 *   fine-tuning run, or tensors that other ranks load
 * @param options.verify true to compare the bytes with their checksums. Default: true unless the checkpoint
 *   is verified
 * @param options.requireFinite true to reject values that are NaN or infinite. Default: true
 * @throws CheckpointError MTL_NOT_FINITE (wrong input), which names the tensor
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH, which lists names; MTL_CHECKPOINT_CORRUPT,
 *   MTL_SAFETENSORS_INVALID, MTL_CHECKPOINT_IO, _DENIED; UsageError MTL_CHECKPOINT_TENSOR
 */
export async function loadCheckpoint(
  options: TensorsToLoad & { readonly checkpoint: Checkpoint; readonly verify?: boolean },
): Promise<LoadResult> {
  checkTensors(options);
  return await loadTensors({ verify: !options.checkpoint.verified, ...options });
}

/** The tensors that a load fills. */
export interface TensorsToLoad {
  readonly tensors: readonly LogicalTensor[];
  /** Returns true for names in the checkpoint that need not be loaded. Default: every name must be loaded. */
  readonly ignore?: (name: string) => boolean;
  /** If false, values that are NaN or infinite are loaded as well. Default: true. */
  readonly requireFinite?: boolean;
}

/**
 * Loads tensors and checks the complete checkpoint. Every byte is read once: blocks that the tensors need are
 * checked when they are read, and all other blocks afterwards. `checkTensors` must have accepted the tensors.
 *
 * @throws the errors of `loadCheckpoint` and `verifyCheckpoint`; the tensors then contain a mixture of old
 *   and new values
 */
export async function loadVerified(
  options: TensorsToLoad & { readonly checkpoint: Checkpoint },
): Promise<LoadResult> {
  const reader = new RunReader();
  const { bytesLoaded } = await loadTensors({ ...options, verify: true, reader });
  await verifyUnread(options.checkpoint, { requireFinite: false, reader });
  return { bytesLoaded, bytesRead: reader.bytesRead };
}

/**
 * Checks that a checkpoint has the tensors to load, before anything is read.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH; UsageError MTL_CHECKPOINT_TENSOR
 */
export function checkTensors(options: TensorsToLoad & { readonly checkpoint: Checkpoint }): void {
  checkLogicalTensors(options.tensors);
  checkMatch(options);
}

async function loadTensors({
  checkpoint,
  tensors,
  verify,
  requireFinite = true,
  reader = new RunReader(),
}: TensorsToLoad & {
  readonly checkpoint: Checkpoint;
  readonly verify: boolean;
  readonly reader?: RunReader;
}): Promise<LoadResult> {
  const order = new Map([...checkpoint.tensors.keys()].map((name, index) => [name, index]));
  // tensors are read in the order of the files, so that disks read sequentially
  const sorted = [...tensors].sort((a, b) => order.get(a.name)! - order.get(b.name)!);
  const shards = new ShardCache(checkpoint);
  let bytesLoaded = 0;
  const countBytes = ({ dtype, slices }: LogicalTensor): number => bytesOfSlices(dtype, slices);
  // all tensors share a buffer of the largest size, because new buffers would have to wait for the garbage
  // collector
  const copied = sorted.filter(({ withMemory }) => withMemory === undefined);
  const scratch = new Uint8Array(
    copied.reduce((largest, tensor) => Math.max(largest, countBytes(tensor)), 0),
  );
  try {
    for (const tensor of sorted) {
      const bytes = countBytes(tensor);
      if (bytes === 0) continue;
      await fillTensor(
        tensor,
        () => scratch.subarray(0, bytes),
        (target) => readPieces({ checkpoint, tensor, target, shards, reader, verify, requireFinite }),
      );
      bytesLoaded += bytes;
    }
  } finally {
    await shards.close();
  }
  return { bytesLoaded, bytesRead: reader.bytesRead };
}

async function readPieces(options: {
  readonly checkpoint: Checkpoint;
  readonly tensor: LogicalTensor;
  readonly target: Uint8Array;
  readonly shards: ShardCache;
  readonly reader: RunReader;
  readonly verify: boolean;
  readonly requireFinite: boolean;
}): Promise<void> {
  const { tensor, target, shards, reader } = options;
  const record = options.checkpoint.tensors.get(tensor.name)!;
  for (const piece of record.pieces) {
    const stored = slicesFromStored(piece.slices);
    const common = intersectSlices(stored, tensor.slices);
    if (common === undefined) continue;
    const { checksums, ...place } = await shards.stored(record, piece, options);
    const source = options.verify && checksums !== undefined ? { ...place, checksums } : place;
    const elementBytes = dtypeBytes[record.dtype];
    const plan = planRuns({ source: stored, target: tensor.slices, common, elementBytes });
    await reader.read({ source, plan, target });
  }
}

/** Compares the requested tensors with the stored tensors, by name, dtype and global shape. */
function checkMatch(options: {
  readonly checkpoint: Checkpoint;
  readonly tensors: readonly LogicalTensor[];
  readonly ignore?: (name: string) => boolean;
}): void {
  const { checkpoint, tensors, ignore = () => false } = options;
  const wanted = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const missing = [...wanted.keys()].filter((name) => !checkpoint.tensors.has(name));
  const unexpected = [...checkpoint.tensors.keys()].filter((name) => !wanted.has(name) && !ignore(name));
  const different: string[] = [];
  for (const { name, dtype, globalShape } of wanted.values()) {
    const stored = checkpoint.tensors.get(name);
    if (stored === undefined) continue;
    const found = `${stored.dtype} [${stored.globalShape.join(', ')}]`;
    const expected = `${dtype} [${globalShape.join(', ')}]`;
    if (found !== expected) different.push(`${name} is ${found}, wanted ${expected}`);
  }
  if (missing.length + unexpected.length + different.length === 0) return;
  const lines = [
    ...describe('missing from the checkpoint', missing, (name) => {
      const nearest = nearestName(name, checkpoint.tensors.keys());
      return nearest === undefined ? name : `${name} (the nearest stored name is ${nearest})`;
    }),
    ...describe('in the checkpoint but not wanted', unexpected, (name) => {
      const nearest = nearestName(name, missing);
      return nearest === undefined ? name : `${name} (the nearest missing name is ${nearest})`;
    }),
    ...describe('of another dtype or shape', different, (text) => text),
  ];
  throw new CheckpointError(
    'MTL_CHECKPOINT_MISMATCH',
    `${checkpoint.path} does not fit the model:\n${lines.join('\n')}`,
    {
      expected: 'the same tensors with the same dtypes and global shapes',
      remedy: 'use the model and optimizer settings that saved it, or leave the names out with `ignore`',
      details: { path: checkpoint.path, missing, unexpected, different },
    },
  );
}

function describe(title: string, names: readonly string[], format: (name: string) => string): string[] {
  if (names.length === 0) return [];
  const more = names.length > listed ? [`    and ${names.length - listed} more`] : [];
  return [
    `  ${names.length} ${title}:`,
    ...names.slice(0, listed).map((name) => `    ${format(name)}`),
    ...more,
  ];
}
