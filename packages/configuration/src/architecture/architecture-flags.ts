import type { BertModelConfiguration, GptModelConfiguration, TransformerConfiguration } from '@mtl/models';
import type { FlagName, Flags } from '../flags/flag-schema.js';
import type { ModelKind } from '../model-kind.js';

/** A GptModelConfiguration or a BertModelConfiguration, as `kind` says. */
export interface KindOfModel {
  readonly kind: ModelKind;
  readonly model: TransformerConfiguration;
}

/** Flags that decide which weights a model has and what it computes with them, in the order of help. */
export const weightFlagNames = [
  'num-layers',
  'hidden-size',
  'ffn-hidden-size',
  'num-attention-heads',
  'max-position-embeddings',
  'norm-epsilon',
  'gelu',
  'untie-embeddings-and-output-weights',
  'layer-norm-placement',
  'bert-no-binary-head',
] as const satisfies readonly FlagName[];

/** The flags that describe a model: all of its architecture but the vocabulary, which is the tokenizer's. */
export function architectureFlags({ kind, model }: KindOfModel): Flags {
  return {
    'num-layers': model.numLayers,
    'hidden-size': model.hiddenSize,
    'ffn-hidden-size': model.ffnHiddenSize,
    'num-attention-heads': model.numAttentionHeads,
    'max-position-embeddings': model.maxPositionEmbeddings,
    'norm-epsilon': model.layerNormEpsilon,
    gelu: model.geluKind,
    'attention-dropout': model.attentionDropout,
    'hidden-dropout': model.hiddenDropout,
    'make-vocab-size-divisible-by': model.makeVocabularySizeDivisibleBy,
    // transformers allows 0, which a flag does not
    ...(model.initMethodStd > 0 ? { 'init-method-std': model.initMethodStd } : {}),
    ...(kind === 'bert'
      ? bertFlagsOf(model as BertModelConfiguration)
      : gptFlagsOf(model as GptModelConfiguration)),
  };
}

const gptFlagsOf = ({ tieEmbeddings }: GptModelConfiguration): Flags => ({
  'untie-embeddings-and-output-weights': !tieEmbeddings,
});

const bertFlagsOf = ({ layerNormPlacement, sentenceOrderHead }: BertModelConfiguration): Flags => ({
  'layer-norm-placement': layerNormPlacement,
  'bert-no-binary-head': !sentenceOrderHead,
});
