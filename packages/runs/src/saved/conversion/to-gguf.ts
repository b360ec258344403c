import { basename, resolve } from 'node:path';
import type { LogicalTensor } from '@mtl/checkpoint';
import type { ModelKind } from '@mtl/configuration';
import { readAnySavedConfiguration } from '@mtl/configuration/internal';
import { ConfigurationError } from '@mtl/errors';
import { checkOptions, choiceOption, type OptionChecks, required, textOption } from '@mtl/errors/options';
import {
  type HuggingFaceOrigin,
  readHuggingFaceBert,
  readHuggingFaceGpt,
  type WritableDtype,
} from '@mtl/formats';
import { type GgufDtype, ggufDtypes, type TokenizerFiles, writeGguf, writeGgufBert } from '@mtl/formats/gguf';
import { huggingFaceModelKind } from '@mtl/formats/internal';
import type { BertModelConfiguration, GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import { modelParameters } from '@mtl/models/internal';
import { createTokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { listEndTokens } from '../../parts/conversations/turn-tokens.js';
import { findRecipe } from '../../parts/models/recipe-of.js';
import { weightsWithAdapters } from '../adapters/merged-weights.js';
import { checkSavedWeights } from '../checkpoints/check-saved.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { readThrough, savedWeights } from '../checkpoints/saved-weights.js';
import { fetchFromHub } from '../hub/fetch-from-hub.js';
import { iterationOption, noticesOption } from '../option-checks.js';
import { exportedTokenizerFiles, tokenizerOfHuggingFace } from '../tokenizers/hugging-face-tokenizers.js';
import { dtypeOfOrigin } from './from-checkpoint.js';

interface ToGguf {
  /** The path of a new file. */
  readonly path: string;
  /** Dtype of the stored matrices. Default: the dtype of the weights, as the model came. */
  readonly dtype?: GgufDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

interface CheckpointToGgufOptions extends ToGguf {
  /** A directory of checkpoints of a GPT or a BERT. */
  readonly load: string;
  /** The iteration; default the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
}

interface HuggingFaceToGgufOptions extends ToGguf {
  /**
   * A directory of the transformers library with a GPT-2, a Llama or a model derived from it, or a BERT; or
   * `org/name` on the Hub.
   */
  readonly loadHuggingFace: string;
  /** Adapters of the model, in the format of PEFT, which are merged. Default: none. */
  readonly loadLora?: string | undefined;
}

const ownChecks = {
  path: required(textOption),
  dtype: choiceOption(Object.keys(ggufDtypes)),
  onNotice: required(noticesOption),
};
const checks: OptionChecks<CheckpointToGgufOptions> = {
  ...ownChecks,
  load: required(textOption),
  checkpointStep: iterationOption,
};
const checksOfHuggingFace: OptionChecks<HuggingFaceToGgufOptions> = {
  ...ownChecks,
  loadHuggingFace: required(textOption),
  loadLora: textOption,
};

const dtypeNames: Readonly<Record<WritableDtype, GgufDtype>> = {
  F32: 'float32',
  BF16: 'bfloat16',
  F16: 'float16',
};

const nameModel = (directory: string): string => basename(resolve(directory));

/** A model of any kind, and the file to write. */
interface ModelToWrite {
  readonly path: string;
  readonly kind: ModelKind;
  readonly model: TransformerConfiguration;
  readonly tensors: readonly LogicalTensor[];
  readonly dtype: GgufDtype;
  readonly name: string;
  readonly tokenizerFiles: TokenizerFiles;
  readonly tokenizerOptions: TokenizerOptions | undefined;
  /** Tokens that end a text. Default: those of the tokenizer. */
  readonly endTokens?: readonly number[];
  readonly origin: HuggingFaceOrigin | undefined;
  readonly onNotice: (notice: string) => void;
}

/** Returns whether texts are lowered by a tokenizer whose vocab.txt does not state it. */
function lowersCase(options: TokenizerOptions | undefined): boolean | undefined {
  const isWordPiece = options?.type === 'BertWordPieceLowerCase' || options?.type === 'BertWordPieceCase';
  return isWordPiece ? options.type === 'BertWordPieceLowerCase' : undefined;
}

async function writeModel({ kind, model, onNotice, tokenizerOptions, ...file }: ModelToWrite): Promise<void> {
  const tokenizer = tokenizerOptions && (await createTokenizer(tokenizerOptions));
  const ends = file.endTokens ?? [];
  const endTokens = ends.length > 0 || tokenizer === undefined ? ends : listEndTokens(tokenizer);
  const notices =
    kind === 'bert'
      ? await writeGgufBert({
          ...file,
          model: model as BertModelConfiguration,
          lowersCase: lowersCase(tokenizerOptions),
        })
      : await writeGguf({ ...file, model: model as GptModelConfiguration, endTokens });
  for (const notice of notices) onNotice(notice);
}

/**
 * Writes the weights of a checkpoint of a GPT or a BERT, saved in any layout, as a GGUF file with the
 * tokenizer. Low-rank adapters are merged into the weights. Memory as for `huggingFaceToGguf`.
 *
 * @returns the path of the checkpoint, and the dtype of the stored matrices
 * @throws ConfigurationError MTL_OPTION, MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*,
 *   MTL_GGUF_*
 */
export async function checkpointToGguf(
  options: CheckpointToGgufOptions,
): Promise<{ readonly source: string; readonly dtype: GgufDtype }> {
  checkOptions(options, { of: 'checkpointToGguf', checks });
  const { path, load, onNotice } = options;
  const { checkpoint, configuration, place } = await openSavedCheckpoint(options);
  if ('fineTuning' in configuration) {
    throw new ConfigurationError('MTL_FINE_TUNING_CONVERT', `${checkpoint.path} is of a fine-tuning`, {
      expected: 'a checkpoint of a pretraining',
      remedy: 'write it with mtl finetune: the same flags with --resume and --save-hf DIR',
    });
  }
  const saved = readAnySavedConfiguration(configuration, place);
  checkSavedWeights(checkpoint, saved);
  const { kind, model, tokenizer: tokenizerOptions, huggingFace: origin } = saved;
  const dtype = options.dtype ?? dtypeNames[dtypeOfOrigin(origin)];
  await writeModel({
    path,
    kind,
    model,
    dtype,
    origin,
    onNotice,
    tensors: findRecipe({ kind }).adapters.merged(saved, { model, tensors: savedWeights(checkpoint) }),
    tokenizerFiles: await exportedTokenizerFiles(tokenizerOptions, model),
    tokenizerOptions,
    name: nameModel(load),
  });
  return { source: checkpoint.path, dtype };
}

/** Opens a directory with a GPT or a BERT, with adapters merged if a directory of them is given. */
async function openDirectory({ loadHuggingFace: directory, loadLora, onNotice }: HuggingFaceToGgufOptions) {
  const kind = await huggingFaceModelKind(directory);
  if (kind === 'bert') {
    if (loadLora !== undefined) {
      throw new ConfigurationError(
        'MTL_GGUF_ARCHITECTURE',
        `${directory} holds a BERT, and adapters are of GPTs`,
        {
          remedy: 'leave out --load-lora',
        },
      );
    }
    const { configuration: model, load, tokenizerFiles, dtype } = await readHuggingFaceBert({ directory });
    const origin = { config: dtype === undefined ? {} : { dtype } };
    const tensors = wholeTensors(kind, model, load);
    return { kind, model, tokenizerFiles, origin, endTokens: [], tensors, close: async () => {} };
  }
  const { notices, configuration: model, ...base } = await readHuggingFaceGpt({ directory });
  for (const notice of notices) onNotice(notice);
  const { tokenizerFiles, origin, endTokens } = base;
  // opened for the first tensor, so that what is wrong with other files is said before
  let weights: ReturnType<typeof base.open> | undefined;
  const load = async (wanted: readonly LogicalTensor[]): Promise<void> => {
    weights ??= base.open();
    await (await weights).load(wanted);
  };
  const close = async (): Promise<void> => (await weights)?.close();
  const tensors =
    loadLora === undefined
      ? wholeTensors(kind, model, load)
      : await weightsWithAdapters({ model, load }, loadLora);
  return { kind, model, tokenizerFiles, origin, endTokens, tensors, close };
}

const wholeTensors = (
  kind: ModelKind,
  model: TransformerConfiguration,
  load: (tensors: readonly LogicalTensor[]) => Promise<void>,
): LogicalTensor[] =>
  modelParameters({ kind, model: model as GptModelConfiguration | BertModelConfiguration }).map(
    ({ name, globalShape }) => readThrough({ name, dtype: 'F32', globalShape }, load),
  );

/**
 * Writes a directory of the transformers library with a GPT or a BERT as a GGUF file, with low-rank adapters
 * merged into the weights if a directory of adapters is given. Weights are read and converted by blocks of
 * rows: memory does not depend on the size of the model.
 *
 * @returns what was converted, and the dtype of the stored matrices
 * @throws ConfigurationError MTL_OPTION, MTL_GGUF_ARCHITECTURE; CheckpointError MTL_HUGGING_FACE_*,
 *   MTL_LORA_DIRECTORY, MTL_GGUF_*
 */
export async function huggingFaceToGguf(
  options: HuggingFaceToGgufOptions,
): Promise<{ readonly source: string; readonly dtype: GgufDtype }> {
  checkOptions(options, { of: 'huggingFaceToGguf', checks: checksOfHuggingFace });
  const { path, loadHuggingFace, loadLora, onNotice } = options;
  const places = await fetchFromHub({ loadHuggingFace, loadLora }, { onMessage: onNotice });
  const base = await openDirectory({ ...options, ...places });
  const tokenizerOptions = tokenizerOfHuggingFace(base.tokenizerFiles);
  const dtype = options.dtype ?? dtypeNames[dtypeOfOrigin(base.origin)];
  const { close, ...model } = base;
  try {
    await writeModel({
      ...model,
      path,
      dtype,
      onNotice,
      tokenizerFiles: {
        ...base.tokenizerFiles,
        ...(await exportedTokenizerFiles(tokenizerOptions, base.model)),
      },
      tokenizerOptions,
      // the cache's directory of a model has the name of its commit
      name: nameModel(
        places.loadHuggingFace === loadHuggingFace ? loadHuggingFace : loadHuggingFace.split('@')[0]!,
      ),
    });
  } finally {
    await close();
  }
  return { source: loadLora === undefined ? loadHuggingFace : `${loadHuggingFace} with ${loadLora}`, dtype };
}
