import {
  numBlockParameters,
  numLearnedPositions,
  type PositionVariants,
  paddedVocabularySize,
  type TransformerConfiguration,
} from '../blocks/transformer-configuration.js';
import {
  type BlockSpecification,
  type LayerNormPlacement,
  transformerBlockSpecification,
} from '../stages/block-specification.js';

/**
 * The architecture of a BERT: the shapes of its weights and its computation. With rotary position embeddings
 * it is a RoFormer.
 */
export interface BertModelConfiguration extends TransformerConfiguration, PositionVariants {
  /** The number of token types: 2, one for the first text and one for the second. */
  readonly tokenTypeVocabularySize: number;
  /**
   * The position of layer norms. `pre`: before each sublayer, and one after the last layer (Shoeybi et al.
   * 2019, figure 7b); `post`: after each sublayer and after the embedding (Devlin et al. 2018), as
   * transformers' BERT has it.
   */
  readonly layerNormPlacement: LayerNormPlacement;
  /**
   * True if the model has the pooler and the head that predict whether two texts are in their order (or
   * follow each other).
   */
  readonly sentenceOrderHead: boolean;
}

/** Returns the number of trained parameters of a BERT, the padded vocabulary included. */
export function numBertParameters(configuration: BertModelConfiguration): number {
  const { hiddenSize: h, tokenTypeVocabularySize } = configuration;
  const vocabulary = paddedVocabularySize(configuration);
  const embeddings = (vocabulary + numLearnedPositions(configuration) + tokenTypeVocabularySize) * h;
  // after the embedding, or after the last layer
  const norm = 2 * h;
  const maskedHead = h * h + h + 2 * h + vocabulary;
  const orderHead = configuration.sentenceOrderHead ? h * h + h + 2 * h + 2 : 0;
  return embeddings + norm + numBlockParameters(configuration) + maskedHead + orderHead;
}

/** The question that a BERT is fine-tuned to answer (Devlin et al. 2018, section 4). */
export type BertTask =
  /** The class of a text, or of a pair of texts. */
  | { readonly kind: 'classification'; readonly numClasses: number }
  /** The right one of a sample's sequences. */
  | { readonly kind: 'multiple-choice' }
  /** The first and the last token of the answer. */
  | { readonly kind: 'span' };

/**
 * Returns the blocks of a BERT: the blocks of `transformerBlockSpecification`, with layer norms at the
 * model's placement.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size
 */
export const bertBlock = (model: BertModelConfiguration): BlockSpecification =>
  transformerBlockSpecification(model, { normPlacement: model.layerNormPlacement });
