import type { BertModelConfiguration } from '@mtl/models';
import { bertTypeOf } from './bert-configuration.js';
import { bertWeightNames } from './bert-weight-mappings.js';
import { type SaveHuggingFaceBertOptions, writeBertDirectory } from './write-bert-directory.js';

export type WriteHuggingFaceBertOptions = SaveHuggingFaceBertOptions;

/**
 * Saves a BERT as transformers' BertForPreTraining, as BertForMaskedLM without sentence-order head, and with
 * rotary position embeddings as RoFormerForMaskedLM: `from_pretrained` loads it. The vocabulary's padding is
 * dropped. It is written next to the target and renamed, so that a failed save leaves nothing behind.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_LAYER_NORM for a model whose layer norms come before the
 *   sublayers, which transformers' BERT cannot compute; MTL_HUGGING_FACE_EXISTS, MTL_HUGGING_FACE_SHAPE,
 *   MTL_HUGGING_FACE_IO, MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown or only a slice without a
 *   group
 */
export async function writeHuggingFaceBert(options: WriteHuggingFaceBertOptions): Promise<void> {
  const { model } = options;
  await writeBertDirectory(options, {
    names: bertWeightNames(model),
    className: classNameOf(model),
  });
}

function classNameOf(model: BertModelConfiguration): string {
  if (bertTypeOf(model) === 'roformer') return 'RoFormerForMaskedLM';
  return model.sentenceOrderHead ? 'BertForPreTraining' : 'BertForMaskedLM';
}
