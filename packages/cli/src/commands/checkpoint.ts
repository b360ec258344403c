import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  Checkpoint,
  type CheckpointListing,
  listCheckpoints,
  type SkippedCheckpoint,
  type TensorRecord,
  verifyCheckpoint,
  verifySafetensorsDirectory,
} from '@mtl/checkpoint';
import { CheckpointError, MtlError } from '@mtl/errors';
import { formatBytes, isOptimizerTensor } from '@mtl/trainer';
import type { Command } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { formatTable } from '../terminal/report-text.js';
import { summaries } from './summaries.js';

/** Creates the command `mtl checkpoint`, whose subcommands inspect and verify checkpoints. */
export function checkpointCommand(): Command {
  return newCommand('checkpoint', summaries.checkpoint)
    .addCommand(inspectCheckpointsCommand())
    .addCommand(verifyCheckpointsCommand());
}

/**
 * Creates the command `mtl checkpoint inspect`, which lists the contents of checkpoints, reading only their
 * manifests.
 */
function inspectCheckpointsCommand(): Command {
  return newCommand('inspect', 'Lists checkpoints and their contents, from their manifests only.')
    .argument('<directory>', 'The directory of --save, or one checkpoint in it.')
    .option('--tensors', 'Lists the tensors of the newest one.')
    .option('--json', 'Prints JSON.')
    .action(inspect);
}

async function inspect(directory: string, { tensors, json }: { tensors?: true; json?: true }): Promise<void> {
  const { checkpoints, skipped } = await readCheckpoints(directory);
  if (json === true) {
    const described = checkpoints.map((checkpoint, index) => ({
      ...summarize(checkpoint),
      ...(tensors === true && index === 0 ? { tensors: listTensors(checkpoint) } : {}),
      state: checkpoint.state,
    }));
    process.stdout.write(
      `${JSON.stringify({ checkpoints: described, skipped: skipped.map(describeDefect) })}\n`,
    );
    return;
  }
  for (const checkpoint of checkpoints) process.stdout.write(formatCheckpoint(checkpoint));
  for (const { path, defect } of skipped.map(describeDefect))
    process.stdout.write(`${path}\n  torn: ${defect}\n`);
  if (tensors !== true || checkpoints[0] === undefined) return;
  process.stdout.write(`tensors of ${checkpoints[0].path}\n`);
  const rows = listTensors(checkpoints[0]).map(
    ({ name, dtype, shape }) => [name, `${dtype} [${shape.join(', ')}]`] as const,
  );
  process.stdout.write(formatTable(rows));
}

function summarize(checkpoint: Checkpoint) {
  const { path, iteration, manifest } = checkpoint;
  const weights = [...checkpoint.tensors.values()].filter(({ name }) => !isOptimizerTensor(name));
  return {
    path,
    iteration,
    savedAt: new Date(manifest.savedAtMs).toISOString(),
    parameters: countElements(weights),
    numTensors: checkpoint.tensors.size,
    hasOptimizer: checkpoint.tensors.size > weights.length,
    shards: manifest.shards.length,
    bytes: bytesOfCheckpoint(checkpoint),
    worldSize: manifest.worldSize,
    libraryVersion: manifest.libraryVersion,
  };
}

function listTensors({ tensors }: Checkpoint) {
  return [...tensors.values()].map(({ name, dtype, globalShape }) => ({ name, dtype, shape: globalShape }));
}

function describeDefect({ path, iteration, defect }: SkippedCheckpoint) {
  return { path, iteration, defect: defect.message };
}

function formatCheckpoint(checkpoint: Checkpoint): string {
  const summary = summarize(checkpoint);
  const optimizer = summary.hasOptimizer ? 'weights and optimizer' : 'weights only';
  return `${summary.path}\n${formatTable([
    ['iteration', summary.iteration],
    ['saved', `${summary.savedAt} by version ${summary.libraryVersion}, ${summary.worldSize} process(es)`],
    ['parameters', summary.parameters],
    ['tensors', `${summary.numTensors}, ${optimizer}`],
    ['shards', `${summary.shards}, ${formatBytes(summary.bytes)}`],
  ])}`;
}

/**
 * Creates the command `mtl checkpoint verify`. The command compares every byte of checkpoints with checksums,
 * finds values that are not finite, and compares the index of Hugging Face shards with the checkpoint.
 */
function verifyCheckpointsCommand(): Command {
  return newCommand('verify', 'Compares every byte of checkpoints with its checksum; finds NaN and infinity.')
    .argument('<directory>', 'The directory of --save, one checkpoint in it, or a Hugging Face directory.')
    .option('--json', 'Prints JSON.')
    .action(verify);
}

interface Verdict {
  readonly path: string;
  /** The iteration of the checkpoint; absent for a Hugging Face directory. */
  readonly iteration?: number;
  readonly bytes?: number;
  /** The defect; absent for an intact checkpoint. */
  readonly defect?: string;
}

async function verify(directory: string, { json }: { json?: true }): Promise<void> {
  const verdicts = isHuggingFace(directory)
    ? [await verdictOnHuggingFace(directory)]
    : await verdictsOnCheckpoints(directory);
  if (json === true) process.stdout.write(`${JSON.stringify(verdicts)}\n`);
  else for (const verdict of verdicts) process.stdout.write(formatVerdict(verdict));
  const torn = verdicts.filter(({ defect }) => defect !== undefined);
  if (torn.length === 0) return;
  const whole = verdicts.filter(({ defect }) => defect === undefined);
  throw new CheckpointError(
    'MTL_CHECKPOINT_CORRUPT',
    `${torn.length} of ${verdicts.length} checkpoint(s) in ${directory} are incomplete, damaged or not finite`,
    {
      exitCode: 2,
      remedy:
        whole.length === 0
          ? 'restore one from a copy'
          : `${whole.at(-1)!.path} is the newest whole one; delete the others, or copy them again`,
    },
  );
}

const indexName = 'model.safetensors.index.json';

/**
 * Returns true if a directory has the format of the transformers library. Checkpoints of this project may
 * have the same index, but they also have a manifest.json.
 */
function isHuggingFace(directory: string): boolean {
  const has = (name: string): boolean => existsSync(join(directory, name));
  return !has('manifest.json') && (has(indexName) || has('model.safetensors'));
}

async function verdictOnHuggingFace(path: string): Promise<Verdict> {
  let bytes = 0;
  const defect = await defectIn(async () => {
    bytes = await verifySafetensorsDirectory(path, { requireFinite: true });
  });
  return defect === undefined ? { path, bytes } : { path, defect };
}

async function verdictsOnCheckpoints(directory: string): Promise<Verdict[]> {
  const { checkpoints, skipped } = await readCheckpoints(directory);
  const verdicts: (Verdict & { readonly iteration: number })[] = [];
  for (const checkpoint of checkpoints) {
    const { path, iteration } = checkpoint;
    const defect = await defectIn(() => verifyAll(checkpoint));
    const bytes = bytesOfCheckpoint(checkpoint);
    verdicts.push({ path, iteration, bytes, ...(defect === undefined ? {} : { defect }) });
  }
  for (const { path, iteration, defect } of skipped)
    verdicts.push({ path, iteration, defect: defect.message });
  return verdicts.sort((a, b) => a.iteration - b.iteration);
}

/** Verifies a checkpoint, and its index for Hugging Face's libraries if the index exists. */
async function verifyAll(checkpoint: Checkpoint): Promise<void> {
  await verifyCheckpoint(checkpoint, { requireFinite: true });
  if (existsSync(join(checkpoint.path, indexName))) await verifySafetensorsDirectory(checkpoint.path);
}

async function defectIn(body: () => Promise<void>): Promise<string | undefined> {
  try {
    await body();
    return undefined;
  } catch (error) {
    if (MtlError.isInstance(error)) return error.message;
    throw error;
  }
}

function formatVerdict({ path, bytes, defect }: Verdict): string {
  return defect === undefined
    ? `${path}: whole, ${formatBytes(bytes!)}\n`
    : `${path}: NOT WHOLE: ${defect}\n`;
}

/**
 * Returns the checkpoints at a path: all checkpoints of a training run's directory, or the single checkpoint
 * whose own path is given.
 *
 * @throws CheckpointError MTL_CHECKPOINT_NONE if there is none
 */
async function readCheckpoints(path: string): Promise<CheckpointListing> {
  if (existsSync(join(path, 'manifest.json'))) {
    return { checkpoints: [await Checkpoint.open(path)], skipped: [] };
  }
  const listing = await listCheckpoints(path);
  if (listing !== undefined && listing.checkpoints.length + listing.skipped.length > 0) return listing;
  throw new CheckpointError(
    'MTL_CHECKPOINT_NONE',
    listing === undefined ? `${path}: no such directory` : `${path} holds no checkpoint`,
    { expected: 'a directory that --save wrote, or one checkpoint in it', exitCode: 2 },
  );
}

/** Returns the size of all shards in bytes. */
function bytesOfCheckpoint({ manifest }: Checkpoint): number {
  return manifest.shards.reduce((sum, shard) => sum + shard.bytes, 0);
}

/** Returns the number of elements of tensors. */
function countElements(tensors: Iterable<TensorRecord>): number {
  let sum = 0;
  for (const { globalShape } of tensors) sum += globalShape.reduce((product, size) => product * size, 1);
  return sum;
}
