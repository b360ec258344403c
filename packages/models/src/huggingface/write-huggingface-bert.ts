import { CheckpointError } from '@mtl/errors';
import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import { encodeBertConfiguration } from './bert-configuration.js';
import { bertWeightNames } from './bert-weight-mappings.js';
import {
  dtypeNames,
  type SaveHuggingFaceOptions,
  writeHuggingFaceDirectory,
} from './write-huggingface-directory.js';

export interface WriteHuggingFaceBertOptions extends SaveHuggingFaceOptions {
  readonly model: BertModelConfiguration;
  /** The token of padding, which transformers keeps in config.json. Default 0, as in BERT's vocabularies. */
  readonly paddingToken?: number;
  /** Whether the vocabulary knows small letters only: written into tokenizer_config.json. Default: not said. */
  readonly lowersCase?: boolean;
}

/**
 * Saves a BERT as transformers' BertForPreTraining, or BertForMaskedLM for one without sentence-order head:
 * `from_pretrained` loads it. The vocabulary's padding is dropped. It is written beside the target and renamed, so that a
 * failed save leaves nothing behind.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_LAYER_NORM for a model whose layer norms stand before the sublayers, which
 *   transformers' BERT cannot compute; MTL_HUGGING_FACE_EXISTS, MTL_HUGGING_FACE_SHAPE, MTL_HUGGING_FACE_IO,
 *   MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown or only a slice without a group
 */
export async function writeHuggingFaceBert(options: WriteHuggingFaceBertOptions): Promise<void> {
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
  await writeHuggingFaceDirectory(options, {
    names: bertWeightNames(model),
    fileName: (name) => (name.startsWith('cls.') ? name : `bert.${name}`),
    jsonFiles: {
      'config.json': encodeBertConfiguration(model, { dtype: dtypeNames[dtype], paddingToken }),
      ...(lowersCase === undefined
        ? {}
        : {
            'tokenizer_config.json': { tokenizer_class: 'BertTokenizer', do_lower_case: lowersCase },
          }),
    },
  });
}
