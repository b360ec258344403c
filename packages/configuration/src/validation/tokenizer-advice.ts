import type { ModelKind } from '../model-kind.js';

/** Flags of tokenizers that suit a model, for advice. */
export const tokenizerAdvice: Readonly<Record<ModelKind, string>> = {
  gpt: '--tokenizer-type GPT2BPETokenizer, or HuggingFaceTokenizer with --tokenizer-model',
  bert: '--tokenizer-type BertWordPieceLowerCase or BertWordPieceCase with --vocab-file vocab.txt',
};
