/** The tokenizers that can be made by name: Megatron's `--tokenizer-type`. */
export const tokenizerTypes = [
  'GPT2BPETokenizer',
  'HuggingFaceTokenizer',
  'BertWordPieceLowerCase',
  'BertWordPieceCase',
  'ByteLevelTokenizer',
  'NullTokenizer',
] as const;
export type TokenizerType = (typeof tokenizerTypes)[number];

/** Which tokenizer to make. Plain data: worker threads make their own from it. */
export type TokenizerOptions =
  | {
      readonly type: 'GPT2BPETokenizer';
      /**
       * `vocab.json` and `merges.txt` (both or none); without them the real GPT-2 vocabulary, which is built
       * in.
       */
      readonly vocabFile?: string | undefined;
      readonly mergeFile?: string | undefined;
      /** A chat template in Jinja; none is looked for next to the files. */
      readonly chatTemplate?: string | undefined;
    }
  | {
      readonly type: 'HuggingFaceTokenizer';
      /** A `tokenizer.json`, or a directory that holds one. */
      readonly tokenizerModel: string;
      /** The token that ends a document, when the files do not say. */
      readonly eodToken?: string | undefined;
      /** A chat template in Jinja, instead of the one next to the file. */
      readonly chatTemplate?: string | undefined;
    }
  | { readonly type: 'BertWordPieceLowerCase' | 'BertWordPieceCase'; readonly vocabFile: string }
  | { readonly type: 'ByteLevelTokenizer'; readonly chatTemplate?: string | undefined }
  | { readonly type: 'NullTokenizer'; readonly vocabSize: number };
