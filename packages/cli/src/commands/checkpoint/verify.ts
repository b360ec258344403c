import { verifyCheckpoint } from '@mtl/checkpoint';
import { CheckpointError, MtlError } from '@mtl/errors';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { formatBytes } from '../../terminal/format-bytes.js';
import { bytesOfCheckpoint, readCheckpoints } from './read-checkpoints.js';

/**
 * `mtl checkpoint verify`: compares every byte of checkpoints with its checksum, and finds values that are
 * not finite.
 */
export function verifyCheckpointsCommand(): Command {
  return newCommand('verify', 'compare every byte of checkpoints with its checksum; find NaN and infinity')
    .argument('<directory>', 'what --save named, or one checkpoint in it')
    .option('--json', 'print JSON')
    .action(verify);
}

interface Verdict {
  readonly path: string;
  readonly iteration: number;
  readonly bytes?: number;
  /** What is wrong with it; absent for a whole one. */
  readonly defect?: string;
}

async function verify(directory: string, { json }: { json?: true }): Promise<void> {
  const { checkpoints, skipped } = await readCheckpoints(directory);
  const verdicts: Verdict[] = [];
  for (const checkpoint of checkpoints) {
    const { path, iteration } = checkpoint;
    const defect = await defectIn(() => verifyCheckpoint(checkpoint, { requireFinite: true }));
    verdicts.push({
      path,
      iteration,
      bytes: bytesOfCheckpoint(checkpoint),
      ...(defect === undefined ? {} : { defect }),
    });
  }
  for (const { path, iteration, defect } of skipped)
    verdicts.push({ path, iteration, defect: defect.message });
  verdicts.sort((a, b) => a.iteration - b.iteration);
  if (json === true) process.stdout.write(`${JSON.stringify(verdicts)}\n`);
  else for (const verdict of verdicts) process.stdout.write(formatVerdict(verdict));
  const torn = verdicts.filter(({ defect }) => defect !== undefined);
  if (torn.length === 0) return;
  const whole = verdicts.filter(({ defect }) => defect === undefined);
  throw new CheckpointError(
    'MTL_CHECKPOINT_CORRUPT',
    `${torn.length} of ${verdicts.length} checkpoint(s) in ${directory} are not whole`,
    {
      exitCode: 2,
      remedy:
        whole.length === 0
          ? 'restore one from a copy'
          : `${whole.at(-1)!.path} is the newest whole one; delete the others, or copy them again`,
    },
  );
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
