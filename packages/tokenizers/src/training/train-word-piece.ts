import { UsageError } from '@mtl/errors';
import { writeFileAtomically } from '@mtl/errors/files';
import type { TokenizerJson } from '../check-tokenizer-json.js';
import { Component } from '../components/component.js';
import { makeNormalizer } from '../components/normalizers.js';
import { makePreTokenizer } from '../components/pre-tokenizers.js';
import {
  checkVocabularySize,
  checkWords,
  countWords,
  learnMerges,
  type TrainingProgress,
  type TrainingTexts,
} from './learn-merges.js';
import { specialToken } from './train-byte-level-bpe.js';

const bertSpecialTokens = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
const continuation = '##';

/** Settings for training a WordPiece vocabulary. */
interface TrainWordPieceOptions {
  readonly texts: TrainingTexts;
  /**
   * The number of ids, which include special tokens, characters (each at the start of a word and continuing a
   * word) and merges.
   */
  readonly vocabularySize: number;
  /** The minimum number of occurrences of a pair that is merged. Default: 2. */
  readonly minFrequency?: number;
  /** True to convert texts to lower case and to strip accents. Default: true, as in bert-base-uncased. */
  readonly lowercase?: boolean;
  /**
   * Additional special tokens, such as `[BOS]` and `[EOS]`. Their ids follow the ids of BERT's five special
   * tokens. Default: none.
   */
  readonly additionalSpecialTokens?: readonly string[];
  /**
   * The number of characters to keep. The most frequent characters are kept, and all further characters
   * become [UNK]. Default: 1000, as in BERT's trainer.
   */
  readonly limitAlphabet?: number;
  readonly onProgress?: (progress: TrainingProgress) => void;
}

/**
 * Trains BERT's WordPiece vocabulary, and returns a Hugging Face tokenizer.json. Like Hugging Face's trainer,
 * it finds pieces by byte-pair merges of characters. Hugging Face's trainer numbers characters in the order
 * of a hash table, whereas this trainer is deterministic, so its choice among equally frequent pieces may
 * differ.
 */
export async function trainWordPiece(options: TrainWordPieceOptions): Promise<TokenizerJson> {
  const {
    texts,
    vocabularySize,
    minFrequency = 2,
    lowercase = true,
    limitAlphabet = 1000,
    additionalSpecialTokens = [],
    onProgress,
  } = options;
  const specialTokens = [...new Set([...bertSpecialTokens, ...additionalSpecialTokens])];
  checkVocabularySize(vocabularySize, specialTokens.length + 1, 'special tokens and one character');
  const normalizerConfig = {
    type: 'BertNormalizer',
    clean_text: true,
    handle_chinese_chars: true,
    strip_accents: null,
    lowercase,
  };
  const place = { file: 'tokenizer.json', where: 'normalizer' };
  const normalizer = makeNormalizer(new Component(normalizerConfig, place));
  const preTokenizer = makePreTokenizer(
    new Component({ type: 'BertPreTokenizer' }, { ...place, where: 'pre_tokenizer' }),
  );
  const split = (text: string) => preTokenizer.split(normalizer.normalize(text), 0);
  const words = await countWords({ texts, split, onProgress });
  checkWords(words);
  const { symbols, spelt } = spell({ words, limitAlphabet, specialTokens });
  checkVocabularySize(
    vocabularySize,
    symbols.length,
    'special tokens and characters; limitAlphabet lowers it',
  );
  learnMerges({
    words: spelt,
    counts: [...words.values()],
    symbols,
    vocabularySize,
    minFrequency,
    continuingPrefix: continuation,
    onProgress: (progress) => onProgress?.({ stage: 'merging', ...progress }),
  });
  const vocab = Object.fromEntries(symbols.map((symbol, id) => [symbol, id]));
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: specialTokens.map(specialToken),
    normalizer: normalizerConfig,
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: bertTemplate(),
    decoder: { type: 'WordPiece', prefix: continuation, cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: continuation,
      max_input_chars_per_word: 100,
      vocab,
    } as TokenizerJson['model'],
  };
}

/**
 * Returns the initial symbols (special tokens, characters and continuing characters; the characters in code
 * point order), and the words as lists of symbols.
 */
function spell(options: {
  words: ReadonlyMap<string, number>;
  limitAlphabet: number;
  specialTokens: readonly string[];
}): { symbols: string[]; spelt: Int32Array[] } {
  const { words, limitAlphabet, specialTokens } = options;
  const frequency = new Map<string, number>();
  const continues = new Set<string>();
  for (const [word, count] of words) {
    for (const [i, character] of Array.from(word).entries()) {
      frequency.set(character, (frequency.get(character) ?? 0) + count);
      if (i > 0) continues.add(character);
    }
  }
  const byCode = (a: string, b: string) => a.codePointAt(0)! - b.codePointAt(0)!;
  const kept = [...frequency]
    .sort(([a, countOfA], [b, countOfB]) => countOfB - countOfA || byCode(a, b))
    .slice(0, limitAlphabet)
    .map(([character]) => character)
    .sort(byCode);
  const continuing = kept
    .filter((character) => continues.has(character))
    .map((character) => continuation + character);
  const symbols = [...specialTokens, ...kept, ...continuing];
  const ids = new Map(symbols.map((symbol, id) => [symbol, id]));
  const spelt = Array.from(words.keys(), (word) => {
    const spelling = Array.from(word, (character, i) =>
      ids.get(i > 0 ? continuation + character : character),
    );
    return Int32Array.from(spelling.filter((id) => id !== undefined));
  });
  return { symbols, spelt };
}

function bertTemplate() {
  const special = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const text = (id: string, typeId: number) => ({ Sequence: { id, type_id: typeId } });
  const entry = (content: string) => [
    content,
    { id: content, ids: [bertSpecialTokens.indexOf(content)], tokens: [content] },
  ];
  const separator = { SpecialToken: { id: '[SEP]', type_id: 1 } };
  return {
    type: 'TemplateProcessing',
    single: [special('[CLS]'), text('A', 0), special('[SEP]')],
    pair: [special('[CLS]'), text('A', 0), special('[SEP]'), text('B', 1), separator],
    special_tokens: Object.fromEntries([entry('[CLS]'), entry('[SEP]')]),
  };
}

/**
 * Writes the vocabulary of a WordPiece tokenizer atomically as BERT's `vocab.txt`. It has one token per line,
 * and the line number, counted from 0, is the id. Hugging Face's BertTokenizer and `BertWordPieceLowerCase`
 * can load it.
 */
export function writeVocabularyText(path: string, tokenizer: TokenizerJson): void {
  const { type, vocab } = tokenizer.model;
  const tokens = Object.entries(vocab).sort(([, a], [, b]) => a - b);
  const dense = tokens.every(([token, id], i) => id === i && !/[\r\n]/.test(token));
  if (type !== 'WordPiece' || !dense) {
    throw new UsageError('MTL_DATA_TOKENIZER', `a ${type} tokenizer cannot be written as a vocab.txt`, {
      expected: 'a WordPiece vocabulary with the ids 0, 1, 2, ... and no line breaks in its tokens',
      remedy: 'write a tokenizer.json',
    });
  }
  writeFileAtomically(path, [`${tokens.map(([token]) => token).join('\n')}\n`]);
}
