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
 * The architecture of a BERT: its weights' shapes and its computation. A BERT with rotary position embeddings
 * is called RoFormer.
 */
export interface BertModelConfiguration extends TransformerConfiguration, PositionVariants {
  /** How many token types there are. Must be 2: one for the first text and one for the second. */
  readonly tokenTypeVocabularySize: number;
  /**
   * Where the layer norms are. `pre`: before each sublayer, and once after the last layer (see Shoeybi et al.
   * 2019, figure 7b). `post`: after each sublayer and after the embedding (see Devlin et al. 2018, and BERT
   * in Hugging Face transformers).
   */
  readonly layerNormPlacement: LayerNormPlacement;
  /**
   * True if the model has a pooler and a head that predicts if two texts are in their original order (or,
   * with different labels, if the second text follows the first).
   */
  readonly sentenceOrderHead: boolean;
}

/** Returns how many trained parameters a BERT has. Padded vocabulary entries count. */
export function numBertParameters(configuration: BertModelConfiguration): number {
  const { hiddenSize: h, tokenTypeVocabularySize } = configuration;
  const vocabulary = paddedVocabularySize(configuration);
  const embeddings = (vocabulary + numLearnedPositions(configuration) + tokenTypeVocabularySize) * h;
  // one layer norm, either after the embedding (`post`) or after the last layer (`pre`)
  const norm = 2 * h;
  const maskedHead = h * h + h + 2 * h + vocabulary;
  const orderHead = configuration.sentenceOrderHead ? h * h + h + 2 * h + 2 : 0;
  return embeddings + norm + numBlockParameters(configuration) + maskedHead + orderHead;
}

/** The kind of answer that a BERT is fine-tuned to give (see Devlin et al. 2018, section 4). */
export type BertTask =
  /** Predicts the class of a text, or of a pair of texts. */
  | { readonly kind: 'classification'; readonly numClasses: number }
  /** Predicts the right sequence among a sample's sequences. */
  | { readonly kind: 'multiple-choice' }
  /** Predicts the first and the last token of the answer in the text. */
  | { readonly kind: 'span' };

/**
 * Returns the block that all layers of a BERT use. It is the result of `transformerBlockSpecification` for
 * the model's layer norm placement.
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS if the hidden size is not divisible by the number of heads
 */
export const bertBlock = (model: BertModelConfiguration): BlockSpecification =>
  transformerBlockSpecification(model, { normPlacement: model.layerNormPlacement });
