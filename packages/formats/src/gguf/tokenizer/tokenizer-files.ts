import { CheckpointError } from '@mtl/errors';
import { fileProblem, isJsonObject, readRegularFile } from '@mtl/errors/files';
import type { TokenizerFileSource } from '../../huggingface/write-huggingface-directory.js';

/** A tokenizer's files, by file name. Each is a path or the file's contents. */
export type TokenizerFiles = Readonly<Record<string, TokenizerFileSource>>;

export type JsonObject = Readonly<Record<string, unknown>>;

const mostBytes = 256 * 2 ** 20;

/** Makes the error for a tokenizer that an output format cannot describe. */
export type RefuseTokenizer = (problem: string, expected: string, remedy: string) => CheckpointError;

/** Makes the error for a tokenizer that GGUF files cannot describe. */
export const tokenizerRefused: RefuseTokenizer = (problem, expected, remedy) =>
  new CheckpointError('MTL_GGUF_TOKENIZER', `GGUF: ${problem}`, { expected, remedy, exitCode: 2 });

/**
 * Returns the contents of a tokenizer file as a string, or undefined if the file does not exist.
 *
 * @param refuse makes the error. Default: the error for GGUF files
 * @throws CheckpointError MTL_GGUF_TOKENIZER for a file that cannot be read
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
 * Returns the object in one of the tokenizer's JSON files, or undefined if the file does not exist.
 *
 * @throws CheckpointError MTL_GGUF_TOKENIZER for a file that cannot be read or is not a JSON object
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

/**
 * Returns a token, such as `bos_token`, as a string. Files contain it as a string, or as an object with
 * `content`.
 */
export function tokenText(value: unknown): string | undefined {
  const content = isJsonObject(value) ? value.content : value;
  return typeof content === 'string' ? content : undefined;
}

/**
 * Returns the tokenizer's chat template from chat_template.jinja, or else from the field `chat_template` of
 * tokenizer_config.json or chat_template.json. If the field is a list, the template named `default`, or else
 * the only template, is returned.
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
