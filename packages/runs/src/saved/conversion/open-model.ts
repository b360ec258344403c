import { basename, resolve } from 'node:path';
import type { LogicalTensor } from '@mtl/checkpoint';
import type { ModelKind } from '@mtl/configuration';
import { readAnySavedConfiguration } from '@mtl/configuration/saved';
import { ConfigurationError } from '@mtl/errors';
import {
  type HuggingFaceOrigin,
  huggingFaceModelKind,
  readBertTask,
  readHuggingFaceBert,
  readHuggingFaceBertForTask,
  readHuggingFaceGpt,
  type TokenizerFileSource,
} from '@mtl/formats';
import {
  type BertModelConfiguration,
  type BertTask,
  bertTaskParameters,
  modelParameters,
  type TransformerConfiguration,
} from '@mtl/models';
import { createTokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { listEndTokens } from '../../parts/conversations/turn-tokens.js';
import { findRecipe } from '../../parts/models/find-recipe.js';
import { weightsWithAdapters } from '../adapters/merged-weights.js';
import { checkSavedWeights } from '../checkpoints/check-saved.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { readThrough, savedWeights } from '../checkpoints/saved-weights.js';
import { fetchFromHub } from '../hub/fetch-from-hub.js';
import { exportedTokenizerFiles, tokenizerOfHuggingFace } from '../tokenizers/hugging-face-tokenizers.js';

/** A model to write in another program's format, with low-rank adapters merged into its weights. */
export interface OpenedModel {
  /** The model's location, for messages. */
  readonly source: string;
  readonly kind: ModelKind;
  readonly model: TransformerConfiguration;
  /** All tensors. A tensor is read in blocks of rows when it is written. */
  readonly tensors: readonly LogicalTensor[];
  /** The name of the model's directory. */
  readonly name: string;
  readonly tokenizerFiles: Readonly<Record<string, TokenizerFileSource>>;
  readonly tokenizerOptions: TokenizerOptions | undefined;
  /**
   * The tokens that end a text, according to the model. If the model names no such tokens, the tokenizer's
   * tokens are used.
   */
  readonly endTokens: readonly number[];
  readonly origin: HuggingFaceOrigin | undefined;
  /** The task of a fine-tuned BERT, with the names of its classes. */
  readonly task?: BertTask | undefined;
  readonly labels?: readonly string[] | undefined;
  close(): Promise<void>;
}

const nameModel = (directory: string): string => basename(resolve(directory));

/**
 * Returns true if the tokenizer converts text to lower case; undefined if it is not a WordPiece tokenizer.
 * This function is needed because vocab.txt does not contain this setting.
 */
export function lowersCase(options: TokenizerOptions | undefined): boolean | undefined {
  const isWordPiece = options?.type === 'BertWordPieceLowerCase' || options?.type === 'BertWordPieceCase';
  return isWordPiece ? options.type === 'BertWordPieceLowerCase' : undefined;
}

/**
 * Opens a GPT or BERT checkpoint, which may have been saved with any layout.
 *
 * @throws ConfigurationError MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*
 */
export async function openCheckpointModel(options: {
  readonly load: string;
  readonly checkpointStep?: number | undefined;
  readonly onNotice: (notice: string) => void;
}): Promise<OpenedModel> {
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
  return {
    source: checkpoint.path,
    kind,
    model,
    tensors: findRecipe({ kind }).adapters.merged(saved, { model, tensors: savedWeights(checkpoint) }),
    name: nameModel(options.load),
    tokenizerFiles: await exportedTokenizerFiles(tokenizerOptions, model),
    tokenizerOptions,
    endTokens: await findEndTokens(tokenizerOptions, []),
    origin,
    close: async () => {},
  };
}

async function findEndTokens(
  options: TokenizerOptions | undefined,
  known: readonly number[],
): Promise<readonly number[]> {
  if (options === undefined) return known;
  const tokenizer = await createTokenizer(options);
  return known.length > 0 ? known : listEndTokens(tokenizer);
}

interface HuggingFaceModelOptions {
  /** A transformers directory, or a model name on the Hub (`org/name`). */
  readonly loadHuggingFace: string;
  /** A directory with the model's adapters in PEFT's format, which are merged. Default: none. */
  readonly loadLora?: string | undefined;
  readonly onNotice: (notice: string) => void;
  /** The code of the error that is thrown if adapters are given for a BERT. */
  readonly refused: `MTL_${string}`;
  /** True if a fine-tuned BERT is opened with the head for its task. Default: false. */
  readonly readsTasks?: boolean;
}

/**
 * Opens a transformers directory with a GPT or a BERT and, if their directory is given, its adapters. The
 * caller must close the model.
 *
 * @throws ConfigurationError with the code `refused`; CheckpointError MTL_HUGGING_FACE_*, MTL_LORA_DIRECTORY
 */
export async function openHuggingFaceModel(options: HuggingFaceModelOptions): Promise<OpenedModel> {
  const { loadHuggingFace, loadLora, onNotice } = options;
  const places = await fetchFromHub({ loadHuggingFace, loadLora }, { onMessage: onNotice });
  const base = await openDirectory({ ...options, ...places });
  const tokenizerOptions = tokenizerOfHuggingFace(base.tokenizerFiles);
  return {
    ...base,
    source: loadLora === undefined ? loadHuggingFace : `${loadHuggingFace} with ${loadLora}`,
    tokenizerFiles: {
      ...base.tokenizerFiles,
      ...(await exportedTokenizerFiles(tokenizerOptions, base.model)),
    },
    tokenizerOptions,
    endTokens: await findEndTokens(tokenizerOptions, base.endTokens),
    // in the cache of Hub models, a directory is named after a commit, so the model's name on the Hub is used
    // instead
    name: nameModel(
      places.loadHuggingFace === loadHuggingFace ? loadHuggingFace : loadHuggingFace.split('@')[0]!,
    ),
  };
}

async function openDirectory(options: HuggingFaceModelOptions) {
  const { loadHuggingFace: directory, loadLora, onNotice, refused } = options;
  const kind = await huggingFaceModelKind(directory);
  if (kind === 'bert') {
    if (loadLora === undefined) return await openBert(options);
    throw new ConfigurationError(refused, `${directory} holds a BERT, and adapters are of GPTs`, {
      remedy: 'leave out --load-lora',
    });
  }
  const { notices, configuration: model, ...base } = await readHuggingFaceGpt({ directory });
  for (const notice of notices) onNotice(notice);
  const { tokenizerFiles, origin, endTokens } = base;
  // the weights are opened when the first tensor is read, so that errors in other files are reported first
  let weights: ReturnType<typeof base.open> | undefined;
  const load = async (wanted: readonly LogicalTensor[]): Promise<void> => {
    weights ??= base.open();
    await (await weights).load(wanted);
  };
  const close = async (): Promise<void> => (await weights)?.close();
  const tensors =
    loadLora === undefined
      ? wholeTensors(modelParameters({ kind, model }), load)
      : await weightsWithAdapters({ model, load }, loadLora);
  return { kind, model, tokenizerFiles, origin, endTokens, tensors, close };
}

async function openBert({ loadHuggingFace: directory, readsTasks = false }: HuggingFaceModelOptions) {
  const kind: ModelKind = 'bert';
  const stated = readsTasks ? await readBertTask(directory) : undefined;
  const { configuration, load, tokenizerFiles, dtype } =
    stated === undefined
      ? await readHuggingFaceBert({ directory })
      : await readHuggingFaceBertForTask({ directory, task: stated.task });
  const origin = { config: dtype === undefined ? {} : { dtype } };
  const model: BertModelConfiguration = configuration;
  const parameters =
    stated === undefined ? modelParameters({ kind, model }) : bertTaskParameters(model, stated.task);
  const tensors = wholeTensors(parameters, load);
  const close = async (): Promise<void> => {};
  return { kind, model, tokenizerFiles, origin, endTokens: [], tensors, close, ...stated };
}

const wholeTensors = (
  parameters: readonly { readonly name: string; readonly globalShape: readonly number[] }[],
  load: (tensors: readonly LogicalTensor[]) => Promise<void>,
): LogicalTensor[] =>
  parameters.map(({ name, globalShape }) => readThrough({ name, dtype: 'F32', globalShape }, load));
