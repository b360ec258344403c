import { existsSync, statSync } from 'node:fs';
import { copyFile, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { renameFile } from '@mtl/errors/files';
import { tokenizerFilesIn } from '@mtl/formats/internal';
import type { Tokenizer, TokenizerOptions } from '@mtl/tokenizers';
import { listParts } from '../flags/tokenizer-parts.js';
import type { Flags } from '../schema/flag-schema.js';

/** Returns the flags that describe a tokenizer. */
export function listTokenizerFlags(options: TokenizerOptions): Flags {
  const parts = listParts(options).map(({ flag, value }) => [flag, value] as const);
  return { 'tokenizer-type': options.type, ...Object.fromEntries(parts) };
}

const chatTemplateName = 'chat_template.jinja';
/**
 * Files that describe the model, are in the tokenizer's folder, and affect the tokenizer. The `model_type` in
 * config.json determines the tokenizer's class. The `eos_token_id` in generation_config.json determines the
 * end of an answer in conversations.
 */
export const modelFileNames: readonly string[] = ['config.json', 'generation_config.json'];

/** A file of a tokenizer. */
export interface TokenizerFile {
  /**
   * The path of the file relative to a directory with the tokenizer: Hugging Face's file name, possibly in a
   * subfolder.
   */
  readonly name: string;
  readonly path: string;
}

/**
 * Returns the files of a tokenizer; an empty list for a built-in tokenizer. A chat template in the options
 * replaces all templates in the tokenizer's folder.
 *
 * @throws CheckpointError with the codes of `tokenizerFilesIn`
 */
export function tokenizerFiles(options: TokenizerOptions): readonly TokenizerFile[] {
  const template = templateFiles(options);
  if (options.type !== 'HuggingFaceTokenizer') {
    const own = listParts(options).flatMap(({ file, value }) =>
      file === undefined ? [] : [{ name: file, path: String(value) }],
    );
    return [...own, ...template];
  }
  const { tokenizerModel } = options;
  const isDirectory = statSync(tokenizerModel, { throwIfNoEntry: false })?.isDirectory() === true;
  const path = isDirectory ? join(tokenizerModel, 'tokenizer.json') : tokenizerModel;
  // files that other programs or tokenizer.json need: chat templates and older formats
  const companions = Object.entries(tokenizerFilesIn(dirname(path)))
    .filter(([name]) => name !== 'tokenizer.json' && !(template.length > 0 && name.endsWith('.jinja')))
    .map(([name, companion]) => ({ name, path: companion }));
  const ofModel = modelFileNames
    .map((name) => ({ name, path: join(dirname(path), name) }))
    .filter((file) => existsSync(file.path));
  return [{ name: 'tokenizer.json', path }, ...companions, ...ofModel, ...template];
}

/** Returns the chat template that the options name, if any. */
function templateFiles(options: TokenizerOptions): readonly TokenizerFile[] {
  const path = 'chatTemplate' in options ? options.chatTemplate : undefined;
  return path === undefined ? [] : [{ name: chatTemplateName, path }];
}

/** Returns the options of a tokenizer, with the paths of its copied files in `directory`. */
function tokenizerIn(directory: string, options: TokenizerOptions): TokenizerOptions {
  const files = listParts(options).flatMap(({ file, option }) =>
    file === undefined ? [] : [[option, join(directory, file)]],
  );
  const template = templateFiles(options).map(({ name }) => ['chatTemplate', join(directory, name)]);
  return { ...options, ...Object.fromEntries([...files, ...template]) };
}

/** The folder, in the directory of --save, with copies of the tokenizer's files. */
const tokenizerFolder = 'tokenizer';

/** The tokenizer in the configuration of a checkpoint. */
export interface SavedTokenizer {
  /**
   * The options of the tokenizer. Its files are copied to the folder `tokenizer` next to the checkpoints, and
   * the options contain the paths within this folder.
   */
  readonly tokenizer?: TokenizerOptions;
}

/**
 * Copies a tokenizer's files next to the checkpoints, and returns the description to store in each
 * checkpoint.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO when the files cannot be copied
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
 * Reads a tokenizer's files into memory, because a run may have to write them again.
 *
 * @returns a function that restores files that have been deleted next to the checkpoints of `directory`. The
 *   function throws CheckpointError MTL_CHECKPOINT_IO when writing fails
 * @throws CheckpointError MTL_CHECKPOINT_IO when a file cannot be read
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

/**
 * Returns the tokenizer options that a checkpoint in `directory` stores. Their file paths are the paths of
 * the copied files.
 */
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

/** Writes a file atomically, with one rename. Creates the file's folder if necessary. */
async function replace(target: string, write: (path: string) => Promise<void>): Promise<void> {
  const unfinished = `${target}.saving-${process.pid}`;
  await mkdir(dirname(target), { recursive: true });
  try {
    await write(unfinished);
    await renameFile(unfinished, target);
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
