import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { checkpointName, trackerName } from '@mtl/checkpoint/internal';
import { fileProblem, readRegularFile } from '@mtl/data';
import { megatronError } from './megatron-files.js';

/** `torch_dist`, the default of Megatron-Core, or `torch`: a file for each rank of a model. */
export type MegatronFormat = 'torch_dist' | 'torch';

/** The checkpoint of one iteration. */
interface MegatronDirectory {
  readonly path: string;
  readonly format: MegatronFormat;
}

/** Limit of the files that are read whole: each has a line of text. */
const maxTextBytes = 1 << 16;

/**
 * Returns the checkpoint in a directory: the directory itself, or of the directories of iterations in it the
 * one that is asked for, else the one that its tracker file names.
 *
 * @throws CheckpointError MTL_MEGATRON_CHECKPOINT
 */
export async function findMegatronCheckpoint(options: {
  readonly directory: string;
  readonly step?: number | undefined;
}): Promise<MegatronDirectory> {
  const { directory, step } = options;
  const own = await formatOf(directory);
  if (own !== undefined) {
    if (step === undefined) return { path: directory, format: own };
    throw megatronError(directory, 'it is one checkpoint, and an iteration is asked for', {
      remedy: 'leave the iteration out, or pass the directory above it',
    });
  }
  const name = step === undefined ? latestName(directory) : checkpointName(step);
  const path = join(directory, name);
  const format = await formatOf(path, { directory, name });
  if (format !== undefined) return { path, format };
  throw megatronError(path, 'it contains neither .metadata nor mp_rank_00', {
    expected: 'a checkpoint of the format torch_dist or torch',
  });
}

function latestName(directory: string): string {
  const text = textOf(join(directory, trackerName))?.trim();
  if (text === 'release') return text;
  if (text !== undefined && /^\d{1,15}$/.test(text)) return checkpointName(Number(text));
  if (text === undefined) {
    throw megatronError(directory, `it has no ${trackerName}, and is no checkpoint itself`, {
      expected: `${trackerName}, .metadata or mp_rank_00 in it`,
    });
  }
  throw megatronError(directory, `${trackerName} contains ${JSON.stringify(text.slice(0, 40))}`, {
    expected: 'an iteration, or the word release',
  });
}

/** Returns the format of a checkpoint; undefined for another directory. */
async function formatOf(
  path: string,
  asked?: { readonly directory: string; readonly name: string },
): Promise<MegatronFormat | undefined> {
  const names = await readdir(path).catch(async () => {
    const others = asked === undefined ? [] : await readdir(asked.directory).catch(() => []);
    const saved = others.filter((name) => /^iter_\d{7,}$|^release$/.test(name)).sort();
    throw megatronError(path, 'there is no such directory', {
      expected: saved.length === 0 ? undefined : `one of ${saved.slice(-8).join(', ')}`,
    });
  });
  if (names.includes('manifest.json')) {
    throw megatronError(path, 'it is a checkpoint of this library', { remedy: 'pass it with --load' });
  }
  if (names.some((name) => /^mp_rank_\d/.test(name))) return 'torch';
  if (!names.includes('.metadata')) {
    if (!names.includes('.zarray') && !names.includes('metadata.json')) return undefined;
    throw megatronError(path, 'it has no .metadata', {
      expected: 'the format torch_dist or torch (zarr is not read)',
      remedy: 'save it with --ckpt-format torch_dist',
    });
  }
  const text = textOf(join(path, 'metadata.json'));
  if (text === undefined) {
    throw megatronError(
      path,
      'it has no metadata.json, which Megatron-LM writes last: the save did not finish',
      {
        expected: 'the format torch_dist (torch_dcp and fsdp_dtensor are not read)',
        remedy: 'use an earlier checkpoint, or save it with --ckpt-format torch_dist',
      },
    );
  }
  const backend = backendOf(text);
  if (backend === 'torch_dist') return 'torch_dist';
  throw megatronError(path, `metadata.json names the backend ${JSON.stringify(backend)}`, {
    expected: 'torch_dist',
    remedy: 'save it with --ckpt-format torch_dist',
  });
}

/** Reads a file; returns undefined where there is none. */
function textOf(path: string): string | undefined {
  try {
    return readRegularFile(path, maxTextBytes).toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw megatronError(path, `it ${fileProblem(error)}`);
  }
}

function backendOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { sharded_backend?: unknown } | null)?.sharded_backend;
  } catch {
    return undefined;
  }
}
