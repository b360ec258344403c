import {
  numBlockParameters,
  paddedVocabularySize,
  type TransformerConfiguration,
} from '../blocks/transformer-configuration.js';

/** The architecture of a GPT: what its weights look like and what they compute. */
export interface GptModelConfiguration extends TransformerConfiguration {
  readonly tieEmbeddings: boolean;
}

/** Trained parameters, the padded vocabulary included. */
export function numParameters(configuration: GptModelConfiguration): number {
  const { hiddenSize: h, maxPositionEmbeddings, tieEmbeddings } = configuration;
  const embedding = paddedVocabularySize(configuration) * h;
  return (
    numBlockParameters(configuration) +
    embedding * (tieEmbeddings ? 1 : 2) +
    maxPositionEmbeddings * h +
    2 * h
  );
}
