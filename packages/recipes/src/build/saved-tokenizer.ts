import { copyFile, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Tokenizer, TokenizerOptions } from '@mtl/data';
import { CheckpointError } from '@mtl/errors';
import { tokenizerFiles, tokenizerIn } from './tokenizer-files.js';

/** The folder in the directory of --save that holds the tokenizer's files. */
const tokenizerFolder = 'tokenizer';

/** What a checkpoint remembers of a tokenizer. */
export interface SavedTokenizer {
  /** Its files are copies in the folder `tokenizer` beside the checkpoints, by their names there. */
  readonly tokenizer?: TokenizerOptions;
}

/**
 * Copies a tokenizer's files beside the checkpoints, and returns what each of these is to remember.
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
  try {
    await mkdir(directory, { recursive: true });
    for (const { name, path } of files) {
      const target = join(directory, name);
      const unfinished = `${target}.saving-${process.pid}`;
      try {
        await copyFile(path, unfinished);
        await rename(unfinished, target);
      } finally {
        await rm(unfinished, { force: true });
      }
    }
  } catch (error) {
    throw new CheckpointError(
      'MTL_CHECKPOINT_IO',
      `the tokenizer cannot be saved into ${directory}: ${(error as Error).message}`,
      { remedy: 'choose a directory for --save that can be written to', exitCode: 2, cause: error },
    );
  }
}
