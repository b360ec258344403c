export { createTokenizer } from './create-tokenizer.js';
export { exportTokenizer } from './export-tokenizer.js';
export { endOfText } from './gpt2-vocabulary.js';
export {
  type Tokenizer,
  type TokenizerIdentifiers,
  type TokenizerOptions,
  tokenizerTypes,
} from './tokenizer.js';
export type { TrainingProgress } from './training/learn-merges.js';
export { trainByteLevelBpe, writeTokenizerJson } from './training/train-byte-level-bpe.js';
export { trainWordPiece, writeVocabularyText } from './training/train-word-piece.js';
export type { EncodedText } from './word-piece.js';
