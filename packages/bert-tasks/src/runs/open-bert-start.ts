import { type LogicalTensor, loadCheckpoint } from '@mtl/checkpoint';
import { readSavedConfiguration } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import { readHuggingFaceBertForTask } from '@mtl/formats';
import type { BertModelConfiguration, BertTask } from '@mtl/models';
import { checkTokenizerFits, openSavedCheckpoint, tokenizerOfHuggingFace } from '@mtl/runs/lifecycle';
import { createTokenizer, type Tokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { isOptimizerTensor } from '@mtl/trainer';
import type { StartConfiguration } from '../flags/fine-tuning-configuration.js';

/** A model to fine-tune. Its weights have not been read yet. */
export interface BertStart {
  /** The path of the checkpoint or directory; undefined for a model from scratch. */
  readonly path: string | undefined;
  readonly model: BertModelConfiguration;
  readonly tokenizer: Tokenizer;
  /**
   * Returns true if the model has values for the given parameter. For the head of a task, a checkpoint must
   * also have the same global shape.
   */
  readonly has: (parameter: Pick<LogicalTensor, 'name' | 'globalShape'>) => boolean;
  /** Fills the tensors for which the model has values. */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

type Found = Omit<BertStart, 'tokenizer'> & { readonly tokenizer: TokenizerOptions | undefined };

export interface OpenBertStartOptions {
  readonly start: StartConfiguration;
  readonly task: BertTask;
  /**
   * The sequence length in tokens, which is also the number of position embeddings of a model from scratch.
   */
  readonly sequenceLength: number;
  readonly onNotice: (notice: string) => void;
}

/**
 * Finds the BERT model from which fine-tuning starts.
 *
 * @throws ConfigurationError MTL_FLAG_REQUIRED, MTL_FLAG_CONFLICT, MTL_TOKENIZER_MODEL; CheckpointError
 *   MTL_CHECKPOINT_* (MTL_CHECKPOINT_STATE if the checkpoint's model is not a BERT), MTL_HUGGING_FACE_*
 */
export async function openBertStart(options: OpenBertStartOptions): Promise<BertStart> {
  const { start } = options;
  const named = await openNamed(options);
  const tokenizerOptions = start.tokenizer ?? named?.tokenizer;
  if (tokenizerOptions === undefined) {
    throw new ConfigurationError('MTL_FLAG_REQUIRED', 'the tokenizer is missing', {
      expected: '--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt',
    });
  }
  const tokenizer = await createTokenizer(tokenizerOptions);
  const found = named ?? fromScratch(options, tokenizer);
  const { model, path } = found;
  checkTokenizerFits({ tokenizer, model, from: path });
  if (!start.initialWeights) return { ...found, tokenizer };
  return { ...found, path: undefined, tokenizer, has: () => false };
}

async function openNamed(options: OpenBertStartOptions): Promise<Found | undefined> {
  const { load, loadHuggingFace, scratch, checkpointStep } = options.start;
  const flags = { '--load': load, '--load-hf': loadHuggingFace, '--num-layers': scratch };
  const given = Object.entries(flags).filter(([, value]) => value !== undefined);
  if (given.length !== 1) {
    const names = given.map(([name]) => name).join(' and ');
    throw new ConfigurationError(
      given.length === 0 ? 'MTL_FLAG_REQUIRED' : 'MTL_FLAG_CONFLICT',
      given.length === 0 ? 'no model is named' : `${names} name more than one model`,
      {
        expected:
          '--load DIR (checkpoints of a BERT), --load-hf DIR (a BERT of the transformers library), or ' +
          '--num-layers, --hidden-size and --num-attention-heads for one from scratch',
      },
    );
  }
  if (checkpointStep !== undefined && load === undefined) {
    throw new ConfigurationError('MTL_FLAG_NEEDS', `--ckpt-step ${checkpointStep} belongs to --load`, {
      remedy: 'leave --ckpt-step out',
    });
  }
  if (load !== undefined) return await openCheckpoint(load, options);
  if (loadHuggingFace !== undefined) return await openHuggingFace(loadHuggingFace, options);
  return undefined;
}

async function openCheckpoint(load: string, options: OpenBertStartOptions): Promise<Found> {
  const { start, onNotice } = options;
  const { checkpointStep } = start;
  const { checkpoint, configuration, place } = await openSavedCheckpoint({ load, checkpointStep, onNotice });
  const saved = readSavedConfiguration('bert', configuration, place);
  const { path, tensors } = checkpoint;
  const shapes = new Map([...tensors].map(([name, { globalShape }]) => [name, `${globalShape}`]));
  return {
    path,
    model: saved.model,
    tokenizer: saved.tokenizer,
    // the head of a different task may have the same name but not the same shape
    has: ({ name, globalShape }) =>
      !isOptimizerTensor(name) &&
      (/_head\./.test(name) ? shapes.get(name) === `${globalShape}` : shapes.has(name)),
    load: async (wanted) => void (await loadCheckpoint({ checkpoint, tensors: wanted, ignore: () => true })),
  };
}

async function openHuggingFace(directory: string, { start, task }: OpenBertStartOptions): Promise<Found> {
  const found = await readHuggingFaceBertForTask({ directory, task });
  return {
    path: directory,
    model: found.configuration,
    // Flags take precedence over the directory's tokenizer files, because these may lack settings.
    tokenizer: start.tokenizer ?? tokenizerOfHuggingFace(found.tokenizerFiles),
    has: ({ name }) => found.parameterNames.has(name),
    load: (tensors) => found.load(tensors),
  };
}

/** Returns a model that has the architecture of the original BERT and the sizes that the flags give. */
function fromScratch({ start, sequenceLength }: OpenBertStartOptions, tokenizer: Tokenizer): Found {
  const { numLayers, hiddenSize, numAttentionHeads, layerNormPlacement } = start.scratch!;
  return {
    path: undefined,
    model: {
      numLayers,
      hiddenSize,
      numAttentionHeads,
      layerNormPlacement,
      ffnHiddenSize: 4 * hiddenSize,
      maxPositionEmbeddings: sequenceLength,
      vocabularySize: tokenizer.vocabularySize,
      makeVocabularySizeDivisibleBy: 128,
      layerNormEpsilon: 1e-5,
      geluKind: 'erf',
      hiddenDropout: 0.1,
      attentionDropout: 0.1,
      initMethodStd: 0.02,
      tokenTypeVocabularySize: 2,
      sentenceOrderHead: false,
    },
    tokenizer: undefined,
    has: () => false,
    load: async () => {},
  };
}
