import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import { isJsonObject } from '@mtl/errors/files';
import { sizeText } from '../size-text.js';
import { type PrivateWord, privateWordIn } from './private-words.js';

/** A file to upload. */
export interface PushedFile {
  /** The file's name, which is the same in the repository and in the folder. */
  readonly file: string;
  readonly bytes: number;
}

/** The format of a model's folder. */
export type ModelFormat = 'transformers' | 'peft' | 'gguf';

/** A folder that contains a model and can be uploaded. */
export interface PushedFolder {
  readonly directory: string;
  readonly format: ModelFormat;
  readonly files: readonly PushedFile[];
  /** The names of the files that do not belong to the model and are therefore not uploaded. */
  readonly left: readonly string[];
  /** The contents of the folder's own model card, if it has one. */
  readonly readme: string | undefined;
}

/** Patterns that match the names of model files. The folder's other files are not uploaded. */
const modelFiles: readonly RegExp[] = [
  /^(?:config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|tekken|chat_template)\.json$/,
  /^(?:merges|vocab)\.txt$/,
  /^(?:tokenizer\.model(?:\.v3)?|spiece\.model|sentencepiece\.bpe\.model|chat_template\.jinja)$/,
  /^adapter_config\.json$/,
  /^[\w-][\w.-]*\.safetensors(?:\.index\.json)?$/,
  /^[\w-][\w.-]*\.gguf$/,
  /^(?:LICENSE|NOTICE)(?:\.(?:txt|md))?$/,
  /^additional_chat_templates\/[\w-][\w.-]*\.jinja$/,
];
const readmeName = 'README.md';
/**
 * Matches the names of text files that may reveal something about this machine. Vocabularies are excluded,
 * because they contain words such as `/root`.
 */
const searched =
  /^(?:(?:config|generation_config|adapter_config|tokenizer_config|special_tokens_map)\.json|chat_template\..*|LICENSE.*|NOTICE.*|additional_chat_templates\/.*)$/;

/**
 * Finds a folder's files that belong to the model, and throws if a text file would reveal something
 * about this machine.
 *
 * @throws ConfigurationError MTL_HUB_PUSH_FOLDER for a folder without a model, or with a file that is too
 *   large; MTL_HUB_PRIVATE
 */
export async function pushedFolder(directory: string, words: readonly PrivateWord[]): Promise<PushedFolder> {
  const names = await namesIn(directory);
  const own = names.filter((name) => modelFiles.some((pattern) => pattern.test(name)));
  const format = detectFormat(own);
  if (format === undefined) throw noModel(directory, names);
  const files: PushedFile[] = [];
  for (const file of own) {
    const { size } = await stat(join(directory, file));
    if (size > mostFileBytes) throw tooLarge(directory, file, size);
    files.push({ file, bytes: size });
    if (searched.test(file)) await refusePrivate(directory, { file, words });
  }
  const hasReadme = names.includes(readmeName);
  if (hasReadme) await refusePrivate(directory, { file: readmeName, words });
  return {
    directory,
    format,
    files,
    left: names.filter((name) => !own.includes(name) && name !== readmeName),
    readme: hasReadme ? await readFile(join(directory, readmeName), 'utf8') : undefined,
  };
}

/**
 * The maximum file size that the Hub accepts through Git LFS (see
 * https://huggingface.co/docs/hub/storage-limits).
 */
const mostFileBytes = 50e9;

function tooLarge(directory: string, file: string, bytes: number): ConfigurationError {
  const remedy = file.endsWith('.gguf')
    ? 'write it in a smaller --dtype, such as q8_0 or q4_k_m, or upload it by Xet with hf upload'
    : 'write the model again: mtl convert --save-hf writes files of at most 5 GB';
  return new ConfigurationError(
    'MTL_HUB_PUSH_FOLDER',
    `${join(directory, file)} has ${sizeText(bytes)}, which Git LFS of the Hub does not take`,
    { expected: `files of at most ${sizeText(mostFileBytes)}`, remedy, details: { file, bytes } },
  );
}

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    const names = await readdir(directory, { recursive: true });
    const found: string[] = [];
    for (const name of names.map((each) => each.replaceAll('\\', '/')).sort()) {
      if ((await stat(join(directory, name)).catch(() => undefined))?.isFile() === true) found.push(name);
    }
    return found;
  } catch (error) {
    throw new ConfigurationError(
      'MTL_HUB_PUSH_FOLDER',
      `${directory} cannot be read: ${(error as Error).message}`,
      {
        expected: 'a folder of the transformers library, of PEFT, or of GGUF files',
        cause: error,
      },
    );
  }
}

function detectFormat(names: readonly string[]): ModelFormat | undefined {
  const hasWeights = names.some((name) => name.endsWith('.safetensors'));
  if (names.includes('adapter_config.json') && hasWeights) return 'peft';
  if (names.includes('config.json') && hasWeights) return 'transformers';
  return names.some((name) => name.endsWith('.gguf')) ? 'gguf' : undefined;
}

function noModel(directory: string, names: readonly string[]): ConfigurationError {
  const isRun = names.includes('run.json') || names.some((name) => name.startsWith('iter_'));
  return new ConfigurationError(
    'MTL_HUB_PUSH_FOLDER',
    isRun
      ? `${directory} is the folder of a run, which other programs do not read`
      : `${directory} holds no model`,
    {
      expected: 'config.json with safetensors, adapters of PEFT, or GGUF files',
      remedy: isRun
        ? `mtl convert --load ${directory} --save-hf DIR, then mtl push DIR`
        : 'name the folder that --save-hf, --save-lora or mtl convert wrote',
    },
  );
}

async function refusePrivate(
  directory: string,
  { file, words }: { readonly file: string; readonly words: readonly PrivateWord[] },
): Promise<void> {
  const text = await readFile(join(directory, file), 'utf8');
  const what = privateWordIn(text, words) ?? localModelIn(file, text);
  if (what === undefined) return;
  throw new ConfigurationError('MTL_HUB_PRIVATE', `${join(directory, file)} contains ${what}`, {
    expected: 'files that tell nothing of this machine',
    remedy: `take it out of ${file}, then run the command again; nothing was uploaded`,
    details: { file },
  });
}

/**
 * Returns a description of the local path that a file gives as the model's origin; undefined if there is
 * none.
 */
function localModelIn(file: string, text: string): string | undefined {
  if (file !== 'config.json' && file !== 'adapter_config.json') return undefined;
  try {
    const fields: unknown = JSON.parse(text);
    if (!isJsonObject(fields)) return undefined;
    const name = ['_name_or_path', 'base_model_name_or_path'].find(
      (each) =>
        typeof fields[each] === 'string' && /^(?:[/~.\\]|[A-Za-z]:[\\/])/.test(fields[each] as string),
    );
    return name === undefined
      ? undefined
      : `a local path in ${name}, where org/name of a model on the Hub belongs`;
  } catch {
    return undefined;
  }
}
