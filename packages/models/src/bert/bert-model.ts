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
 * The architecture of a BERT: the shapes of its weights and its computation. A BERT with rotary position
 * embeddings is a RoFormer.
 */
export interface BertModelConfiguration extends TransformerConfiguration, PositionVariants {
  /** The number of token types. It is 2: the types of the first and the second text. */
  readonly tokenTypeVocabularySize: number;
  /**
   * The position of layer norms. `pre`: before each sublayer, and once after the last layer (Shoeybi et al.
   * 2019, figure 7b). `post`: after each sublayer and after the embedding (Devlin et al. 2018; BERT in
   * Hugging Face transformers).
   */
  readonly layerNormPlacement: LayerNormPlacement;
  /**
   * True if the model has a pooler and a head that predicts if two texts are in their original order (or if
   * the second follows the first).
   */
  readonly sentenceOrderHead: boolean;
}

/** Returns the number of trained parameters of a BERT, including padded vocabulary entries. */
export function numBertParameters(configuration: BertModelConfiguration): number {
  const { hiddenSize: h, tokenTypeVocabularySize } = configuration;
  const vocabulary = paddedVocabularySize(configuration);
  const embeddings = (vocabulary + numLearnedPositions(configuration) + tokenTypeVocabularySize) * h;
  // there is one layer norm: after the embedding (`post`) or after the last layer (`pre`)
  const norm = 2 * h;
  const maskedHead = h * h + h + 2 * h + vocabulary;
  const orderHead = configuration.sentenceOrderHead ? h * h + h + 2 * h + 2 : 0;
  return embeddings + norm + numBlockParameters(configuration) + maskedHead + orderHead;
}

/** The kind of answer that a BERT is fine-tuned to give (Devlin et al. 2018, section 4). */
export type BertTask =
  /** Predicts the class of a text, or of a pair of texts. */
  | { readonly kind: 'classification'; readonly numClasses: number }
  /** Predicts which of a sample's sequences is right. */
  | { readonly kind: 'multiple-choice' }
  /** Predicts the first and the last token of the answer in the text. */
  | { readonly kind: 'span' };

/**
 * Returns the block of all layers of a BERT: the block of `transformerBlockSpecification`, with layer norms
 * at the model's placement.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export const bertBlock = (model: BertModelConfiguration): BlockSpecification =>
  transformerBlockSpecification(model, { normPlacement: model.layerNormPlacement });
