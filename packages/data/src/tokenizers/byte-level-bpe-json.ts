const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };

/** What a byte-level BPE is made of; tokens are spelt in the alphabet of `byteAlphabet`. */
export interface ByteLevelBpe {
  readonly vocab: Readonly<Record<string, number>>;
  /** Pairs of tokens with a space between them, the first merge first. */
  readonly merges: readonly string[];
  readonly endOfText: { readonly id: number; readonly content: string } | undefined;
  /** Whether texts are split into words as GPT-2 does. */
  readonly splitsWords: boolean;
}

/** The tokenizer.json of a byte-level BPE as GPT-2's. */
export function byteLevelBpeJson({ vocab, merges, endOfText, splitsWords }: ByteLevelBpe) {
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: endOfText === undefined ? [] : [{ ...endOfText, ...flags }],
    normalizer: null,
    pre_tokenizer: { ...byteLevel, use_regex: splitsWords },
    post_processor: { ...byteLevel, trim_offsets: false },
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab,
      merges,
    },
  };
}
