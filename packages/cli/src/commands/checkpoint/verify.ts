import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Checkpoint, verifyCheckpoint, verifySafetensorsDirectory } from '@mtl/checkpoint';
import { CheckpointError, MtlError } from '@mtl/errors';
import { formatBytes } from '@mtl/trainer/internal';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { bytesOfCheckpoint, readCheckpoints } from './read-checkpoints.js';

/**
 * `mtl checkpoint verify`: compares every byte of checkpoints with its checksum, finds values that are not
 * finite, and compares the index of Hugging Face shards with them.
 */
export function verifyCheckpointsCommand(): Command {
  return newCommand('verify', 'Compares every byte of checkpoints with its checksum; finds NaN and infinity.')
    .argument('<directory>', 'The directory of --save, one checkpoint in it, or a Hugging Face directory.')
    .option('--json', 'Prints JSON.')
    .action(verify);
}

interface Verdict {
  readonly path: string;
  /** Absent for a Hugging Face directory. */
  readonly iteration?: number;
  readonly bytes?: number;
  /** What is wrong with it; absent for a whole one. */
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

/** A directory of the transformers library, and not one of ours, which may have the same index. */
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

/** The checkpoint itself, then the index for Hugging Face's libraries if it has one. */
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
