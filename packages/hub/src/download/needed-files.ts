import { CheckpointError } from '@mtl/errors';
import { isJsonObject } from '@mtl/errors/files';

type NamedPart = 'model' | 'configuration' | 'tokenizer' | 'adapter';

/**
 * The part of a model to fetch: all files that training and inference need (`model`), the descriptions
 * without weights (`configuration`), the tokenizer, adapters in PEFT's format, or a single file, given by its
 * path.
 */
export type ModelPart = NamedPart | { readonly file: string };

const configurationFiles = ['config.json', 'generation_config.json'];
/** All files that are read for a tokenizer, or that an export of the model copies. */
const tokenizerFiles = [
  ...['tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json', 'added_tokens.json'],
  ...['vocab.json', 'merges.txt', 'vocab.txt', 'tokenizer.model', 'tokenizer.model.v3', 'spiece.model'],
  ...['sentencepiece.bpe.model', 'tekken.json', 'chat_template.jinja', 'chat_template.json'],
];
const adapterFiles = ['adapter_config.json', 'adapter_model.safetensors'];

const singleWeights = 'model.safetensors';
/** The name of the file that states which weight file contains each tensor. */
export const weightsIndex = 'model.safetensors.index.json';

/**
 * Patterns for the names of chat templates and weight files. They do not match a name that leads out of the
 * directory.
 */
const templatePattern = /^additional_chat_templates\/[\w-][\w.-]*\.jinja$/;
const weightsPattern = /^[\w-][\w.-]*\.safetensors$/;

/** The files without which each part cannot be used. */
const requiredFiles: Readonly<Record<NamedPart, readonly string[]>> = {
  model: ['config.json'],
  configuration: ['config.json'],
  tokenizer: [],
  adapter: adapterFiles,
};

/**
 * Returns a repository's files that a part needs, except the weight files that an index names. Never includes
 * files whose loading executes code (pickles: `.bin`, `.pt`, `.ckpt`).
 *
 * @param options.files the names of all files in the repository
 * @throws CheckpointError MTL_HUB_FILE if the part does not exist, or only as a pickle
 */
export function neededFiles(options: {
  readonly part: ModelPart;
  readonly files: ReadonlySet<string>;
  /** `org/name`, for messages. */
  readonly name: string;
}): readonly string[] {
  const { part, files, name } = options;
  if (typeof part === 'object') {
    if (!files.has(part.file)) throw noSuchFile(part.file, options);
    return [part.file];
  }
  const missing = requiredFiles[part].filter((file) => !files.has(file));
  if (missing.length > 0) throw noSuchPart({ part, files, name }, missing);
  const templates = [...files].filter((file) => templatePattern.test(file)).sort();
  const ofTokenizer = [...tokenizerFiles.filter((file) => files.has(file)), ...templates];
  const ofConfiguration = configurationFiles.filter((file) => files.has(file));
  if (part === 'adapter') return adapterFiles;
  if (part === 'configuration') return [...ofConfiguration, ...ofTokenizer];
  if (part === 'tokenizer') {
    if (ofTokenizer.length === 0) throw noSuchPart({ part, files, name }, ['tokenizer.json']);
    // the configuration is included because special tokens may be in config.json
    return [...ofConfiguration, ...ofTokenizer];
  }
  const weights = [singleWeights, weightsIndex].find((file) => files.has(file));
  if (weights === undefined) throw onlyPickles(name, files);
  return [...ofConfiguration, ...ofTokenizer, weights];
}

/**
 * Returns the weight files that an index names.
 *
 * @param text the contents of the index file
 * @throws CheckpointError MTL_HUB_FILE for an index that names no files, or a file that is not in the
 *   repository
 */
export function listWeightFiles(
  text: string,
  { files, name }: { readonly files: ReadonlySet<string>; readonly name: string },
): readonly string[] {
  const map = mapIn(text);
  const named = [...new Set(Object.values(map ?? {}))].sort();
  const wrong = named.find(
    (file) => typeof file !== 'string' || !weightsPattern.test(file) || !files.has(file),
  );
  if (named.length > 0 && wrong === undefined) return named as string[];
  const problem =
    named.length === 0 ? 'names no files' : `names ${String(wrong)}, which the repository does not have`;
  throw new CheckpointError('MTL_HUB_FILE', `${weightsIndex} of ${name} ${problem}`, {
    expected: 'the files of all tensors',
    remedy: 'choose another revision (org/name@revision) or another model',
    exitCode: 2,
  });
}

function mapIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    const map = isJsonObject(parsed) ? parsed.weight_map : undefined;
    return isJsonObject(map) ? map : undefined;
  } catch {
    return undefined;
  }
}

function noSuchPart(
  {
    part,
    files,
    name,
  }: { readonly part: NamedPart; readonly files: ReadonlySet<string>; readonly name: string },
  missing: readonly string[],
): CheckpointError {
  const isAdapter = part !== 'adapter' && files.has('adapter_config.json');
  const isModel = part === 'adapter' && files.has('config.json');
  const remedy = isAdapter
    ? `it holds adapters: pass it as --load-lora, and its model as --load-hf`
    : isModel
      ? 'it holds a model: pass it as --load-hf'
      : 'choose a repository in the format of the transformers library';
  return new CheckpointError('MTL_HUB_FILE', `${name} has no ${missing.join(' and no ')}`, {
    remedy,
    exitCode: 2,
  });
}

function noSuchFile(
  file: string,
  { files, name }: { readonly files: ReadonlySet<string>; readonly name: string },
): CheckpointError {
  const others = [...files].filter((other) => other.endsWith('.gguf')).sort();
  return new CheckpointError('MTL_HUB_FILE', `${name} has no ${file}`, {
    expected:
      others.length === 0 ? 'a repository with GGUF files' : `one of ${others.slice(0, 8).join(', ')}`,
    remedy: others.length === 0 ? 'choose a repository with GGUF files' : `pass ${name}/${others[0]}`,
    exitCode: 2,
  });
}

function onlyPickles(name: string, files: ReadonlySet<string>): CheckpointError {
  const pickles = [...files].filter((file) => /\.(?:bin|pt|pth|ckpt)$/.test(file));
  const gguf = [...files].filter((file) => file.endsWith('.gguf'));
  const has = pickles.length > 0 ? `; ${pickles[0]} is a pickle, which can run any code` : '';
  return new CheckpointError('MTL_HUB_FILE', `${name} has no ${singleWeights}${has}`, {
    expected: `${singleWeights}, or ${weightsIndex} with its files`,
    remedy:
      gguf.length > 0
        ? `choose the repository that the GGUF files were made from, or convert one with mtl convert --from gguf ${name}/${gguf[0]}`
        : pickles.length > 0
          ? 'choose a revision with safetensors (often refs/pr/1, by a bot of the Hub), or convert it with save_pretrained'
          : 'choose a repository in the format of the transformers library',
    exitCode: 2,
  });
}
