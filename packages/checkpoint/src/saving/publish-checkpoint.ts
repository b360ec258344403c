import { join } from 'node:path';
import { CheckpointError, UsageError } from '@mtl/errors';
import { coverDefect } from '@mtl/layout';
import { Checkpoint } from '../checkpoints/checkpoint.js';
import {
  checkpointName,
  listCheckpoints,
  trackerName,
  unfinishedName,
} from '../checkpoints/checkpoint-directory.js';
import {
  encodeManifest,
  type JsonObject,
  type Manifest,
  manifestName,
  type PieceRecord,
  type ShardRecord,
  type TensorRecord,
} from '../checkpoints/manifest.js';
import { type FileSystem, syncDirectory, writeDurably } from '../files/file-system.js';
import { systemCode, withIoErrors } from '../files/io-error.js';
import { libraryVersion } from '../library-version.js';
import { safetensorsIndexName } from '../safetensors/safetensors-directory.js';
import { encodeSafetensorsIndex } from '../safetensors/safetensors-writer.js';
import { slicesFromStored } from '../tensors/stored-slices.js';
import { preparedTrackerName } from './save-directory.js';
import { partName, type RankShards } from './write-rank-shards.js';

/**
 * Renames the finished temporary directory `saving` to the checkpoint `iter_...` after all its files are on
 * the disk, and writes the iteration to the tracker file. Until the rename, the directory's other checkpoints
 * do not change. Everything that needs disk space is written before the rename.
 */
export async function publishCheckpoint(options: {
  readonly directory: string;
  readonly saving: string;
  readonly iteration: number;
  readonly token: string;
  readonly worldSize: number;
  /** The name of the run that saves; undefined outside of a run. */
  readonly run?: string | undefined;
  readonly state: JsonObject;
  readonly fileSystem: FileSystem;
}): Promise<Checkpoint> {
  const { directory, saving, iteration, fileSystem, worldSize, run, state, token } = options;
  const parts = await readParts({ saving, worldSize, fileSystem });
  const tables = mergeParts({ parts, token });
  const newest = (await listCheckpoints(directory))?.checkpoints[0]?.manifest.savedAtMs ?? 0;
  // Clocks of machines differ and may be set back, but the order of saves must be correct.
  const savedAtMs = Math.max(Date.now(), newest + 1);
  const saved = { iteration, savedAtMs, worldSize, libraryVersion };
  const manifest: Manifest = { ...saved, ...(run === undefined ? {} : { run }), state, ...tables };
  await withIoErrors({ action: 'publish', path: saving }, async () => {
    await writeIndex({ manifest, saving, fileSystem });
    await writeNamed({ path: join(saving, manifestName), text: encodeManifest(manifest), fileSystem });
    for (let rank = 0; rank < worldSize; rank++) await fileSystem.rm(join(saving, partName(rank)));
    await syncDirectory(saving, fileSystem);
  });
  const path = join(directory, checkpointName(iteration));
  await withIoErrors({ action: 'publish', path }, () => moveIntoPlace({ ...options, path }));
  return new Checkpoint({ path, manifest, verified: false });
}

/**
 * Calls `writeDurably` and adds the file's name to its errors, because the system's errors about writes to an
 * open file do not contain the name.
 */
async function writeNamed(file: Parameters<typeof writeDurably>[0]): Promise<void> {
  await withIoErrors({ action: 'write', path: file.path }, () => writeDurably(file));
}

async function readParts(options: {
  readonly saving: string;
  readonly worldSize: number;
  readonly fileSystem: FileSystem;
}): Promise<RankShards[]> {
  const parts: RankShards[] = [];
  for (let rank = 0; rank < options.worldSize; rank++) {
    const path = join(options.saving, partName(rank));
    const text = await withIoErrors({ action: 'read', path }, async () => {
      try {
        return await options.fileSystem.readFile(path, 'utf8');
      } catch (error) {
        if (systemCode(error) !== 'ENOENT') throw error;
        throw new CheckpointError('MTL_CHECKPOINT_NOT_SHARED', `rank ${rank} wrote its part somewhere else`, {
          expected: `${path} on a file system that all ranks share`,
          remedy: 'save to shared storage',
        });
      }
    });
    parts.push(JSON.parse(text) as RankShards);
  }
  return parts;
}

/**
 * Writes the index for Hugging Face's libraries. The index can name only tensors that are stored completely
 * in a single file.
 */
async function writeIndex(options: {
  readonly manifest: Manifest;
  readonly saving: string;
  readonly fileSystem: FileSystem;
}): Promise<void> {
  const { manifest, saving, fileSystem } = options;
  if (manifest.tensors.some(({ name, pieces }) => pieces.length !== 1 || pieces[0]!.key !== name)) return;
  const shardByName = new Map(
    manifest.tensors.map((t) => [t.name, manifest.shards[t.pieces[0]!.shard]!.file]),
  );
  const totalBytes = manifest.shards.reduce((sum, shard) => sum + shard.bytes - shard.headerBytes, 0);
  const path = join(saving, safetensorsIndexName);
  await writeNamed({
    path,
    text: encodeSafetensorsIndex({ totalBytes, fileByName: shardByName }),
    fileSystem,
  });
}

async function moveIntoPlace(options: {
  readonly directory: string;
  readonly saving: string;
  readonly path: string;
  readonly iteration: number;
  readonly fileSystem: FileSystem;
}): Promise<void> {
  const { directory, saving, path, iteration, fileSystem } = options;
  const prepared = join(directory, preparedTrackerName);
  await writeNamed({ path: prepared, text: String(iteration), fileSystem });
  const replaced = join(directory, unfinishedName(iteration, 'replaced'));
  let moved = false;
  try {
    moved = await renameIfThere({ from: path, to: replaced, fileSystem });
    await fileSystem.rename(saving, path);
  } catch (error) {
    if (moved) await fileSystem.rename(replaced, path);
    throw error;
  }
  await syncDirectory(directory, fileSystem);
  await fileSystem.rename(prepared, join(directory, trackerName));
  await syncDirectory(directory, fileSystem);
  if (moved) await fileSystem.rm(replaced, { recursive: true, force: true });
}

/**
 * Renames a directory if it exists. If the new name is an existing directory, this directory must be empty.
 */
async function renameIfThere(options: {
  readonly from: string;
  readonly to: string;
  readonly fileSystem: FileSystem;
}): Promise<boolean> {
  try {
    await options.fileSystem.rename(options.from, options.to);
    return true;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Merges the tables of all ranks into the tables of a manifest.
 *
 * @throws UsageError MTL_CHECKPOINT_COVER if ranks disagree on a tensor, or their boxes overlap or leave gaps
 * @throws CheckpointError MTL_CHECKPOINT_NOT_SHARED if a table's token is not `token`, because a different
 *   save wrote it
 */
function mergeParts(options: { readonly parts: readonly RankShards[]; readonly token: string }): {
  readonly shards: ShardRecord[];
  readonly tensors: TensorRecord[];
} {
  const shards: ShardRecord[] = [];
  const tensors = new Map<string, { record: TensorRecord; pieces: PieceRecord[] }>();
  for (const [rank, part] of options.parts.entries()) {
    if (part.token !== options.token || part.rank !== rank) {
      throw new CheckpointError('MTL_CHECKPOINT_NOT_SHARED', `the part of rank ${rank} is of another save`, {
        remedy: 'let only one run save into a directory',
      });
    }
    for (const tensor of part.tensors) {
      const known = tensors.get(tensor.name) ?? { record: tensor, pieces: [] };
      tensors.set(tensor.name, known);
      const { record } = known;
      if (record.dtype !== tensor.dtype || record.globalShape.join() !== tensor.globalShape.join()) {
        throw new UsageError(
          'MTL_CHECKPOINT_COVER',
          `rank ${rank} saves ${tensor.name} as ${tensor.dtype} [${tensor.globalShape.join(', ')}]`,
          { expected: `${record.dtype} [${record.globalShape.join(', ')}] as other ranks do` },
        );
      }
      known.pieces.push(...tensor.pieces.map((piece) => ({ ...piece, shard: piece.shard + shards.length })));
    }
    shards.push(...part.shards);
  }
  const records = [...tensors.values()].map(({ record, pieces }) => ({ ...record, pieces }));
  for (const { name, globalShape, pieces } of records) {
    const defect = coverDefect(
      globalShape,
      pieces.map((piece) => slicesFromStored(piece.slices)),
    );
    if (defect === undefined) continue;
    throw new UsageError(
      'MTL_CHECKPOINT_COVER',
      `the saved boxes of ${name} do not make up the tensor: ${defect}`,
      {
        expected: 'every element from exactly one rank',
        remedy: 'give copies on further ranks a replica number other than 0',
      },
    );
  }
  return { shards, tensors: records };
}
