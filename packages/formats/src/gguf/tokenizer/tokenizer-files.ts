import { CheckpointError } from '@mtl/errors';
import { fileProblem, isJsonObject, readRegularFile } from '@mtl/errors/files';
import type { TokenizerFileSource } from '../../huggingface/write-huggingface-directory.js';

/** A tokenizer's files, by name: paths, or contents. */
export type TokenizerFiles = Readonly<Record<string, TokenizerFileSource>>;

export type JsonObject = Readonly<Record<string, unknown>>;

const mostBytes = 256 * 2 ** 20;

/** Returns the error for a tokenizer that a format cannot have. */
export type RefuseTokenizer = (problem: string, expected: string, remedy: string) => CheckpointError;

/** Returns the error for a tokenizer that GGUF cannot have. */
export const tokenizerRefused: RefuseTokenizer = (problem, expected, remedy) =>
  new CheckpointError('MTL_GGUF_TOKENIZER', `GGUF: ${problem}`, { expected, remedy, exitCode: 2 });

/**
 * Returns the text of a file of the tokenizer; undefined where it has no such file.
 *
 * @param refuse makes the error. Default: the error of GGUF files
 * @throws CheckpointError MTL_GGUF_TOKENIZER where it cannot be read
 */
export function readText(files: TokenizerFiles, name: string, refuse = tokenizerRefused): string | undefined {
  const source = files[name];
  if (source === undefined) return undefined;
  if (typeof source !== 'string') return source.contents;
  try {
    return readRegularFile(source, mostBytes).toString('utf8');
  } catch (error) {
    throw refuse(
      `${source} ${fileProblem(error)}`,
      'a file of the tokenizer as it was saved',
      'check the path and its permissions',
    );
  }
}

/**
 * Returns the object in a JSON file of the tokenizer; undefined where it has no such file.
 *
 * @throws CheckpointError MTL_GGUF_TOKENIZER where it cannot be read, or holds no JSON object
 */
export function readObject(
  files: TokenizerFiles,
  name: string,
  refuse = tokenizerRefused,
): JsonObject | undefined {
  const contents = readText(files, name, refuse);
  if (contents === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(contents);
  } catch {
    value = undefined;
  }
  if (isJsonObject(value)) return value;
  throw refuse(
    `${name} of the tokenizer holds no JSON object`,
    'a file of the tokenizer as it was saved',
    'save or download the tokenizer again',
  );
}

/** Returns the text of a token such as `bos_token`, which files state as text or as an object. */
export function tokenText(value: unknown): string | undefined {
  const content = isJsonObject(value) ? value.content : value;
  return typeof content === 'string' ? content : undefined;
}

/**
 * Returns the chat template of the tokenizer's files: chat_template.jinja, or `chat_template` of
 * tokenizer_config.json or chat_template.json, where a list has it under the name `default`.
 */
export function readTemplate(files: TokenizerFiles, refuse = tokenizerRefused): string | undefined {
  const separate = readText(files, 'chat_template.jinja', refuse);
  if (separate !== undefined) return separate;
  const stated =
    readObject(files, 'tokenizer_config.json', refuse)?.chat_template ??
    readObject(files, 'chat_template.json', refuse)?.chat_template;
  if (!Array.isArray(stated)) return typeof stated === 'string' ? stated : undefined;
  const listed = stated.filter(isJsonObject);
  const found =
    listed.find(({ name }) => name === 'default') ?? (listed.length === 1 ? listed[0] : undefined);
  return typeof found?.template === 'string' ? found.template : undefined;
}
