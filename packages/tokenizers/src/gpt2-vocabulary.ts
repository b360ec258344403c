import { readJsonFile, readTextFile } from './tokenizer-files.js';

/** The token that ends a document. It is the last token of GPT-2's vocabulary. */
export const endOfText = '<|endoftext|>';

/**
 * Loads GPT-2's 50,256 byte-pair tokens in the order of their ids, which is also the order of their merges. A
 * token is a byte string, in which each byte is a character from U+0000 to U+00FF.
 */
export async function loadGpt2Vocabulary(): Promise<readonly string[]> {
  // the vocabulary is imported on demand, because the import takes 50 ms
  const { default: tokens } = await import('gpt-tokenizer/bpeRanks/r50k_base');
  return tokens.map((token) => Buffer.from(token as string).toString('latin1'));
}

// Unicode's White_Space, as in the reference implementations; JavaScript's \s also contains U+FEFF, but not
// U+0085
const space = '\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';

/** Matches the words into which GPT-2 splits a text (Radford 2019). The matches together cover the text. */
export const gpt2WordPattern = new RegExp(
  `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${space}\\p{L}\\p{N}]+|[${space}]+(?![^${space}])|[${space}]+`,
  'gu',
);

/**
 * The characters that represent bytes in byte-level BPE vocabularies (GPT-2), indexed by byte. Bytes that are
 * printable in Latin-1 keep their character. The remaining bytes are represented by characters from U+0100
 * on.
 */
export const byteAlphabet: readonly string[] = makeByteAlphabet();

function makeByteAlphabet(): string[] {
  const prints = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let moved = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(prints(byte) ? byte : moved++));
}

/** Returns the characters that represent the UTF-8 bytes of `text`. */
export function spellBytes(text: string): string {
  let spelt = '';
  for (const byte of Buffer.from(text, 'utf8')) spelt += byteAlphabet[byte];
  return spelt;
}

/** The ByteLevel component in GPT-2's tokenizer.json. */
export const byteLevel = {
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: true,
} as const;

/** The model of a byte-level BPE in a tokenizer.json, without the vocabulary and the merges. */
export const byteLevelModel = {
  type: 'BPE',
  dropout: null,
  unk_token: null,
  continuing_subword_prefix: '',
  end_of_word_suffix: '',
  fuse_unk: false,
  byte_fallback: false,
  ignore_merges: false,
} as const;

/**
 * Vocabulary and merges of a byte-level BPE. Its tokens are written with the characters of `byteAlphabet`.
 */
export interface ByteLevelBpe {
  readonly vocab: Readonly<Record<string, number>>;
  /** The merges in order, each as two tokens separated by a space. */
  readonly merges: readonly string[];
  readonly endOfText: { readonly id: number; readonly content: string } | undefined;
  /** True if texts are split into words in the same way as GPT-2. */
  readonly splitsWords: boolean;
}

/** Returns a tokenizer.json for a byte-level BPE in GPT-2's style. */
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
    model: { ...byteLevelModel, vocab, merges },
  };
}

/** Reads `vocab.json` and `merges.txt`. Throws `MTL_DATA_TOKENIZER` if they cannot be read. */
export function readGpt2Files(files: {
  readonly vocabFile: string;
  readonly mergeFile: string;
}): ByteLevelBpe {
  // the contents are checked later, when the tokenizer is made
  const vocab = readJsonFile(files.vocabFile) as Readonly<Record<string, number>>;
  const lines = readTextFile(files.mergeFile).split(/\r?\n/);
  const merges = lines.filter((line, i) => line !== '' && !(i === 0 && line.startsWith('#version')));
  const id = (vocab as typeof vocab | null)?.[endOfText];
  return {
    vocab,
    merges,
    endOfText: id === undefined ? undefined : { id, content: endOfText },
    splitsWords: true,
  };
}
