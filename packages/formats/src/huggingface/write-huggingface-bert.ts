import type { TensorSource } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { type BertModelConfiguration, type BertTask, bertBlock } from '@mtl/models';
import { type BertArchitecture, chooseBertType, encodeBertConfiguration } from './bert-configuration.js';
import { bertTaskWeightNames, bertWeightNames } from './bert-weight-mappings.js';
import { encodeFloats, type WritableDtype } from './float-bytes.js';
import type { WeightNames } from './mapped-weights.js';
import type { BertTypeName } from './model-types.js';
import { asStatedBy } from './statable-models.js';
import {
  dtypeNames,
  type SaveHuggingFaceOptions,
  writeHuggingFaceDirectory,
} from './write-huggingface-directory.js';

/** The BERT or RoFormer to write, and options for the directory. */
export interface WriteHuggingFaceBertOptions extends SaveHuggingFaceOptions {
  readonly model: BertModelConfiguration;
  /** The padding token's id, which is written to config.json. Default: 0, as in BERT's vocabularies. */
  readonly paddingToken?: number;
  /**
   * True if texts are converted to lower case. This is written to tokenizer_config.json. Default: not
   * written.
   */
  readonly lowersCase?: boolean;
}

/**
 * Saves a BERT for transformers' `from_pretrained`: as BertForPreTraining, as BertForMaskedLM if it has no
 * sentence-order head, or as RoFormerForMaskedLM if it has rotary positions. The vocabulary's padding is
 * dropped. The directory is written under a temporary name and renamed, so a failed save leaves no files.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_LAYER_NORM for a model with layer norms before the sublayers,
 *   which transformers' BERT does not support; MTL_HUGGING_FACE_EXISTS, MTL_HUGGING_FACE_SHAPE,
 *   MTL_HUGGING_FACE_IO, MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown, or only a slice although
 *   there is no group
 */
export async function writeHuggingFaceBert(options: WriteHuggingFaceBertOptions): Promise<void> {
  const { model } = options;
  await writeBertDirectory(options, {
    names: bertWeightNames(model),
    className: chooseClassName(model),
  });
}

function chooseClassName(model: BertModelConfiguration): string {
  if (chooseBertType(model) === 'roformer') return 'RoFormerForMaskedLM';
  return model.sentenceOrderHead ? 'BertForPreTraining' : 'BertForMaskedLM';
}

interface WriteHuggingFaceBertForTaskOptions extends WriteHuggingFaceBertOptions {
  readonly task: BertTask;
  /** The class names of a classification, in order. Default: LABEL_0 and so on, as in transformers. */
  readonly labels?: readonly string[] | undefined;
}

const classNames: Readonly<Record<BertTypeName, Readonly<Partial<Record<BertTask['kind'], string>>>>> = {
  bert: {
    classification: 'BertForSequenceClassification',
    'multiple-choice': 'BertForMultipleChoice',
    span: 'BertForQuestionAnswering',
  },
  // a RoFormer's other heads have different layers than BERT's heads
  roformer: { span: 'RoFormerForQuestionAnswering' },
};

/**
 * Returns the name of the transformers class for a fine-tuned BERT; undefined if no class computes the same
 * outputs.
 */
export const huggingFaceTaskClass = (model: BertModelConfiguration, task: BertTask): string | undefined =>
  classNames[chooseBertType(model)][task.kind];

/**
 * Saves a fine-tuned BERT (the parameters of a BertTaskStage) as the transformers class for its task.
 * `from_pretrained` and `readHuggingFaceBertForTask` can load it.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for a task whose class in transformers has different
 *   layers; the errors of `writeHuggingFaceBert`
 */
export async function writeHuggingFaceBertForTask(
  options: WriteHuggingFaceBertForTaskOptions,
): Promise<void> {
  const { task, model, labels } = options;
  const className = huggingFaceTaskClass(model, task);
  if (className === undefined) {
    throw new CheckpointError(
      'MTL_HUGGING_FACE_CONFIG',
      `a RoFormer of transformers has other layers for ${task.kind} than this model`,
      {
        expected: 'a BERT with learned positions, or a task with answers in spans',
        remedy: 'keep this model as a checkpoint of ours',
        exitCode: 2,
      },
    );
  }
  await writeBertDirectory(options, {
    names: bertTaskWeightNames(model, { task, has: { pooler: task.kind !== 'span', head: true } }),
    className,
    labels: task.kind === 'classification' ? (labels ?? numberedLabels(task.numClasses)) : undefined,
  });
}

const numberedLabels = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `LABEL_${index}`);

// the names of heads have no prefix; all other names have the prefix `bert.` or `roformer.`
const isHead = (name: string): boolean => /^(cls|classifier|qa_outputs)\./.test(name);

/**
 * Writes a BERT with any head.
 *
 * @throws CheckpointError, UsageError the errors of `writeHuggingFaceBert`
 */
async function writeBertDirectory(
  options: WriteHuggingFaceBertOptions,
  { names, ...architecture }: BertArchitecture & { readonly names: WeightNames },
): Promise<void> {
  const { model, dtype = 'F32', paddingToken = 0, lowersCase } = options;
  if (model.layerNormPlacement === 'pre') {
    throw new CheckpointError(
      'MTL_HUGGING_FACE_LAYER_NORM',
      "the model has layer norm before each sublayer, which transformers' BERT does not compute",
      {
        expected: 'a model with layer norm after each sublayer (layerNormPlacement: post)',
        remedy: 'train one with the original order, or keep this one as a checkpoint of ours',
        exitCode: 2,
      },
    );
  }
  if (!isStated(model)) {
    throw new CheckpointError(
      'MTL_HUGGING_FACE_CONFIG',
      "the model has rotary positions or a sentence-order head that transformers' RoFormer does not compute",
      {
        expected:
          'pairs of neighbouring features rotated (rotaryInterleaved) with base 10000, unscaled, in whole heads; no sentence-order head',
        remedy: 'train such a model, or keep this one as a checkpoint of ours',
        exitCode: 2,
      },
    );
  }
  const settings = { dtype: dtypeNames[dtype], paddingToken, ...architecture };
  await writeHuggingFaceDirectory(options, {
    names,
    fileName: (name) => (isHead(name) ? name : `${names.prefix}${name}`),
    constants: chooseBertType(model) === 'roformer' ? [roformerAngles(model, dtype)] : [],
    jsonFiles: {
      'config.json': encodeBertConfiguration(model, settings),
      ...(lowersCase === undefined
        ? {}
        : {
            'tokenizer_config.json': {
              tokenizer_class: 'BertTokenizer',
              do_lower_case: lowersCase,
              model_max_length: model.maxPositionEmbeddings,
            },
          }),
    },
  });
}

/** Returns true if reading the written directory would give the same model. */
function isStated(model: BertModelConfiguration): boolean {
  const stated = asStatedBy(chooseBertType(model), model);
  const computed = (of: BertModelConfiguration): string =>
    JSON.stringify([bertBlock(of), of.sentenceOrderHead]);
  return stated !== undefined && computed(stated) === computed(model);
}

/**
 * Returns the table [P, D] of a RoFormer's rotation angles. The first half of each row contains the sines,
 * and the second half the cosines. transformers computes the table itself, but warns if a file does not
 * contain it.
 */
function roformerAngles(
  { maxPositionEmbeddings, hiddenSize, numAttentionHeads }: BertModelConfiguration,
  dtype: WritableDtype,
): TensorSource {
  const headSize = hiddenSize / numAttentionHeads;
  const numPairs = headSize / 2;
  const values = new Float32Array(maxPositionEmbeddings * headSize);
  for (let position = 0; position < maxPositionEmbeddings; position++) {
    for (let pair = 0; pair < numPairs; pair++) {
      const angle = position / 10_000 ** (pair / numPairs);
      values[position * headSize + pair] = Math.sin(angle);
      values[position * headSize + numPairs + pair] = Math.cos(angle);
    }
  }
  return {
    name: 'roformer.encoder.embed_positions.weight',
    dtype,
    shape: [maxPositionEmbeddings, headSize],
    read: () => encodeFloats(values, dtype),
  };
}
