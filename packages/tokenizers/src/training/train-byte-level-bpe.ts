import { writeFileAtomically } from '@mtl/errors/files';
import type { TokenizerJson } from '../check-tokenizer-json.js';
import { byteAlphabet, gpt2WordPattern } from '../gpt2-vocabulary.js';
import {
  checkVocabularySize,
  checkWords,
  countWords,
  learnMerges,
  type TrainingProgress,
  type TrainingTexts,
} from './learn-merges.js';

/** Settings for training a byte-level BPE. */
interface TrainByteLevelBpeOptions {
  readonly texts: TrainingTexts;
  /** The number of ids, which include special tokens, 256 bytes and merges. */
  readonly vocabularySize: number;
  /** The minimum number of occurrences of a pair that is merged. Default: 2. */
  readonly minFrequency?: number;
  /** The tokens that get the first ids. Default: only `<|endoftext|>`. */
  readonly specialTokens?: readonly string[];
  readonly onProgress?: (progress: TrainingProgress) => void;
}

/**
 * Trains a byte-level BPE in GPT-2's style (Radford 2019), and returns a Hugging Face tokenizer.json. For the
 * same texts, the merges are equal to the merges of Hugging Face's trainer. Every text can be encoded, and
 * decoding returns it unchanged.
 */
export async function trainByteLevelBpe(options: TrainByteLevelBpeOptions): Promise<TokenizerJson> {
  const { texts, vocabularySize, minFrequency = 2, specialTokens = ['<|endoftext|>'], onProgress } = options;
  const alphabet = [...byteAlphabet].sort();
  checkVocabularySize(vocabularySize, specialTokens.length + 256, 'special tokens and 256 bytes');
  const words = await countWords({ texts, split: (text) => text.match(gpt2WordPattern) ?? [], onProgress });
  checkWords(words);
  const symbols = [...specialTokens, ...alphabet];
  const idOfByte = byteAlphabet.map((character) => specialTokens.length + alphabet.indexOf(character));
  const encoder = new TextEncoder();
  const merges = learnMerges({
    words: Array.from(words.keys(), (word) =>
      Int32Array.from(encoder.encode(word), (byte) => idOfByte[byte]!),
    ),
    counts: [...words.values()],
    symbols,
    vocabularySize,
    minFrequency,
    onProgress: (progress) => onProgress?.({ stage: 'merging', ...progress }),
  });
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: specialTokens.map(specialToken),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(symbols.map((symbol, id) => [symbol, id])),
      merges: merges.map(([left, right]) => [symbols[left]!, symbols[right]!] as const),
    } as TokenizerJson['model'],
  };
}

/** Returns an entry of `added_tokens`. */
export function specialToken(content: string, id: number) {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
}

/** Writes a tokenizer.json atomically. Hugging Face's libraries and `HuggingFaceTokenizer` can load it. */
export function writeTokenizerJson(path: string, tokenizer: TokenizerJson): void {
  writeFileAtomically(path, [`${JSON.stringify(tokenizer, null, 2)}\n`]);
}
