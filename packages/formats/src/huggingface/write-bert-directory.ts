import { CheckpointError } from '@mtl/errors';
import { type BertModelConfiguration, bertBlock } from '@mtl/models';

import { type BertArchitecture, bertTypeOf, encodeBertConfiguration } from './bert-configuration.js';
import type { WeightNames } from './mapped-weights.js';
import { roformerAngles } from './roformer-angles.js';
import { asStatedBy } from './statable-models.js';
import {
  dtypeNames,
  type SaveHuggingFaceOptions,
  writeHuggingFaceDirectory,
} from './write-huggingface-directory.js';

export interface SaveHuggingFaceBertOptions extends SaveHuggingFaceOptions {
  readonly model: BertModelConfiguration;
  /** The token of padding, which transformers keeps in config.json. Default 0, as in BERT's vocabularies. */
  readonly paddingToken?: number;
  /**
   * Whether the vocabulary knows small letters only: written into tokenizer_config.json. Default: not
   * written.
   */
  readonly lowersCase?: boolean;
}

// what classes of transformers put on the encoder; everything else is below `bert.` or `roformer.`
const isHead = (name: string): boolean => /^(cls|classifier|qa_outputs)\./.test(name);

/** Writes a BERT with any head. @throws CheckpointError, UsageError as `writeHuggingFaceBert` does */
export async function writeBertDirectory(
  options: SaveHuggingFaceBertOptions,
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
    constants: bertTypeOf(model) === 'roformer' ? [roformerAngles(model, dtype)] : [],
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

/** Whether what would be read of the directory is the same model. */
function isStated(model: BertModelConfiguration): boolean {
  const stated = asStatedBy(bertTypeOf(model), model);
  const computed = (of: BertModelConfiguration): string =>
    JSON.stringify([bertBlock(of), of.sentenceOrderHead]);
  return stated !== undefined && computed(stated) === computed(model);
}
