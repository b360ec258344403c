import { copyFile, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Tokenizer, TokenizerOptions } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import { tokenizerFiles, tokenizerIn } from './tokenizer-files.js';

/** The folder in the directory of --save that holds the tokenizer's files. */
const tokenizerFolder = 'tokenizer';

/** What a checkpoint remembers of a tokenizer. */
export interface SavedTokenizer {
  /** Its files are copies in the folder `tokenizer` next to the checkpoints, by their names there. */
  readonly tokenizer?: TokenizerOptions;
}

/**
 * Copies a tokenizer's files next to the checkpoints, and returns what each of these is to remember.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO when they cannot be copied
 */
export async function saveTokenizer(
  directory: string,
  tokenizer: Pick<Tokenizer, 'options'> | undefined,
): Promise<SavedTokenizer> {
  const options = tokenizer?.options;
  if (options === undefined) return {};
  await copyFiles(join(directory, tokenizerFolder), options);
  return { tokenizer: tokenizerIn('', options) };
}

/**
 * Keeps a tokenizer's files in memory, for as long as a run may have to write them again.
 *
 * @returns writes those that are missing next to the checkpoints of `directory`, which may have been deleted
 *   @throws CheckpointError MTL_CHECKPOINT_IO when they cannot be written
 * @throws CheckpointError MTL_CHECKPOINT_IO when they cannot be read
 */
export async function keepTokenizer(
  directory: string,
  tokenizer: Pick<Tokenizer, 'options'> | undefined,
): Promise<() => Promise<void>> {
  const folder = join(directory, tokenizerFolder);
  const options = tokenizer?.options;
  const files = options === undefined ? [] : tokenizerFiles(options);
  const kept = await withTokenizerErrors(folder, () =>
    Promise.all(files.map(async ({ name, path }) => ({ name, bytes: await readFile(path) }))),
  );
  return async () => {
    for (const { name, bytes } of kept) {
      const target = join(folder, name);
      await withTokenizerErrors(folder, async () => {
        if ((await stat(target).catch(() => undefined)) !== undefined) return;
        await replace(target, (unfinished) => writeFile(unfinished, bytes));
      });
    }
  };
}

/** The tokenizer that a checkpoint in `directory` remembers, its files found where they were copied to. */
export function savedTokenizer(
  { tokenizer }: SavedTokenizer,
  { directory }: { readonly directory: string },
): TokenizerOptions | undefined {
  return tokenizer && tokenizerIn(join(directory, tokenizerFolder), tokenizer);
}

async function copyFiles(directory: string, options: TokenizerOptions): Promise<void> {
  const files = tokenizerFiles(options);
  if (files.length === 0) return;
  await withTokenizerErrors(directory, async () => {
    for (const { name, path } of files)
      await replace(join(directory, name), (unfinished) => copyFile(path, unfinished));
  });
}

/** Makes a file appear whole, by one rename, in a folder that need not exist yet. */
async function replace(target: string, write: (path: string) => Promise<void>): Promise<void> {
  const unfinished = `${target}.saving-${process.pid}`;
  await mkdir(dirname(target), { recursive: true });
  try {
    await write(unfinished);
    await rename(unfinished, target);
  } finally {
    await rm(unfinished, { force: true });
  }
}

async function withTokenizerErrors<Result>(
  directory: string,
  operation: () => Promise<Result>,
): Promise<Result> {
  try {
    return await operation();
  } catch (error) {
    throw new CheckpointError(
      'MTL_CHECKPOINT_IO',
      `the tokenizer cannot be saved into ${directory}: ${(error as Error).message}`,
      { remedy: 'choose a directory for --save that can be written to', exitCode: 2, cause: error },
    );
  }
}
