import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MtlError } from '@mtl/errors';
import { checkOptions, type OptionChecks, required, textOption } from '@mtl/errors/options';
import { type GgufGpt, readGguf } from '@mtl/formats/gguf';
import { createTokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { refuseCheckpoints } from '../checkpoints/checkpoint-places.js';
import { fetchGgufFromHub } from '../hub/fetch-from-hub.js';
import { noticesOption } from '../option-checks.js';
import { type BegunCheckpoint, beginCheckpoint } from './to-checkpoint.js';

interface GgufToCheckpointOptions {
  /** The path of a GGUF file with a GPT, or its name on the Hub (`org/name/file.gguf`). */
  readonly gguf: string;
  readonly directory: string;
  readonly onNotice: (notice: string) => void;
}

const checks: OptionChecks<GgufToCheckpointOptions> = {
  gguf: required(textOption),
  directory: required(textOption),
  onNotice: required(noticesOption),
};

/**
 * Creates a directory of checkpoints from a GGUF file with a GPT in float32, float16, bfloat16 or q8_0. The
 * checkpoint in it contains the weights and the tokenizer. It has iteration 0 and a fresh optimizer.
 *
 * @throws ConfigurationError MTL_OPTION; CheckpointError MTL_CHECKPOINT_EXISTS if the directory already
 *   contains checkpoints; MTL_GGUF_*, MTL_NOT_FINITE
 */
export async function ggufToCheckpoint(
  options: GgufToCheckpointOptions,
): Promise<BegunCheckpoint & { readonly source: string }> {
  checkOptions(options, { of: 'ggufToCheckpoint', checks });
  const { gguf, directory, onNotice } = options;
  await refuseCheckpoints(directory, { remedy: 'choose another name' });
  const found = await readGguf(await fetchGgufFromHub(gguf, { onMessage: onNotice }));
  const scratch = await mkdtemp(join(tmpdir(), 'mtl-gguf-'));
  try {
    for (const notice of found.notices) onNotice(notice);
    const { configuration: model, load, origin, modelType } = found;
    const tokenizer = await tokenizerIn(join(scratch, 'tokenizer'), found, onNotice);
    const path = await beginCheckpoint(directory, {
      kind: 'gpt',
      model,
      load,
      origin,
      tokenizerOptions: tokenizer,
      refused: {
        code: 'MTL_GGUF_ARCHITECTURE',
        remedy: 'convert a model that gpt-train can express',
      },
    });
    const { vocabularySize } = model;
    return { path, kind: 'gpt', tokenizer, vocabularySize, modelType, source: gguf };
  } finally {
    await found.close();
    await rm(scratch, { recursive: true, force: true });
  }
}

/**
 * Writes a GGUF file's tokenizer to `folder`. From there, the tokenizer is later copied to the directory of
 * checkpoints. The weights are useful without a tokenizer, so an unsupported tokenizer causes only a notice.
 */
async function tokenizerIn(
  folder: string,
  { path, tokenizerFiles }: GgufGpt,
  onNotice: (notice: string) => void,
): Promise<TokenizerOptions | undefined> {
  if (tokenizerFiles['tokenizer.json'] === undefined) return undefined;
  await mkdir(folder);
  for (const [name, contents] of Object.entries(tokenizerFiles)) {
    await writeFile(join(folder, name), contents);
  }
  const options = { type: 'HuggingFaceTokenizer', tokenizerModel: join(folder, 'tokenizer.json') } as const;
  try {
    await createTokenizer(options);
    return options;
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    onNotice(`${path}: its tokenizer cannot be used for training (${error.message}): name another one`);
    return undefined;
  }
}
