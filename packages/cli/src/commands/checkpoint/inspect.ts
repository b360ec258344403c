import type { Checkpoint, SkippedCheckpoint } from '@mtl/checkpoint';
import { formatBytes, isOptimizerTensor } from '@mtl/trainer/internal';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { formatTable } from '../../terminal/format-table.js';
import { bytesOfCheckpoint, elementsOf, readCheckpoints } from './read-checkpoints.js';

/** `mtl checkpoint inspect`: what checkpoints hold, from their manifests alone. */
export function inspectCheckpointsCommand(): Command {
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
      ...summaryOf(checkpoint),
      ...(tensors === true && index === 0 ? { tensors: tensorsOf(checkpoint) } : {}),
      state: checkpoint.state,
    }));
    process.stdout.write(`${JSON.stringify({ checkpoints: described, skipped: skipped.map(defectOf) })}\n`);
    return;
  }
  for (const checkpoint of checkpoints) process.stdout.write(formatCheckpoint(checkpoint));
  for (const { path, defect } of skipped.map(defectOf)) process.stdout.write(`${path}\n  torn: ${defect}\n`);
  if (tensors !== true || checkpoints[0] === undefined) return;
  process.stdout.write(`tensors of ${checkpoints[0].path}\n`);
  const rows = tensorsOf(checkpoints[0]).map(
    ({ name, dtype, shape }) => [name, `${dtype} [${shape.join(', ')}]`] as const,
  );
  process.stdout.write(formatTable(rows));
}

function summaryOf(checkpoint: Checkpoint) {
  const { path, iteration, manifest } = checkpoint;
  const weights = [...checkpoint.tensors.values()].filter(({ name }) => !isOptimizerTensor(name));
  return {
    path,
    iteration,
    savedAt: new Date(manifest.savedAtMs).toISOString(),
    parameters: elementsOf(weights),
    numTensors: checkpoint.tensors.size,
    hasOptimizer: checkpoint.tensors.size > weights.length,
    shards: manifest.shards.length,
    bytes: bytesOfCheckpoint(checkpoint),
    worldSize: manifest.worldSize,
    libraryVersion: manifest.libraryVersion,
  };
}

function tensorsOf({ tensors }: Checkpoint) {
  return [...tensors.values()].map(({ name, dtype, globalShape }) => ({ name, dtype, shape: globalShape }));
}

function defectOf({ path, iteration, defect }: SkippedCheckpoint) {
  return { path, iteration, defect: defect.message };
}

function formatCheckpoint(checkpoint: Checkpoint): string {
  const summary = summaryOf(checkpoint);
  const optimizer = summary.hasOptimizer ? 'weights and optimizer' : 'weights only';
  return `${summary.path}\n${formatTable([
    ['iteration', summary.iteration],
    ['saved', `${summary.savedAt} by version ${summary.libraryVersion}, ${summary.worldSize} process(es)`],
    ['parameters', summary.parameters],
    ['tensors', `${summary.numTensors}, ${optimizer}`],
    ['shards', `${summary.shards}, ${formatBytes(summary.bytes)}`],
  ])}`;
}
