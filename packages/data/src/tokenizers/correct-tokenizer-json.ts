import type { TokenizerJson } from './check-tokenizer-json.js';
import { byteAlphabet, gpt2WordPattern } from './gpt2-vocabulary.js';
import { rememberWords } from './remember-words.js';
import {
  type PatternSettings,
  replaceMatches,
  type SplitBehavior,
  splitText,
  textPattern,
} from './text-pattern.js';
import { wordPieceSplitter } from './word-piece.js';

/** Internals of a normalizer of the library. */
interface LibraryNormalizer {
  readonly normalizers?: readonly (LibraryNormalizer | null)[];
  tokenize_chinese_chars?: (text: string) => string;
  normalize(text: string): string;
}

/** A normalizer in tokenizer.json. */
interface NormalizerSettings {
  readonly type?: string;
  readonly normalizers?: readonly unknown[];
  readonly lowercase?: boolean;
  readonly strip_left?: boolean;
  readonly strip_right?: boolean;
  /** Only a Replace has it. */
  readonly pattern?: PatternSettings;
  readonly content?: string;
}

// CJK ideographs as BERT counts them (its tokenization.py): the unified blocks, their extensions,
// compatibility ones.
const ideographs =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b820}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

/**
 * Corrects normalizers of @huggingface/tokenizers 0.2.0, in place, where the tokenizers library gives other
 * texts. BertNormalizer looks for ideographs in UTF-16 units, so those beyond U+FFFF never stand alone as
 * they do in Python. Lower case of a capital sigma depends on its place in the word, where the Rust library
 * lowers each character alone. Strip takes U+FEFF for white space, and U+0085 for none. Replace reads
 * expressions as Oniguruma, and `$` of its content as it is.
 *
 * @param settings the normalizer in tokenizer.json
 */
export function correctNormalizer(normalizer: unknown, settings: unknown): void {
  // Instances of the library can be called: they are functions.
  const found = normalizer as LibraryNormalizer | null | undefined;
  if (found === null || found === undefined) return;
  const config = settings as NormalizerSettings | null | undefined;
  for (const [i, part] of (found.normalizers ?? []).entries()) {
    correctNormalizer(part, config?.normalizers?.[i]);
  }
  const normalize = found.normalize.bind(found);
  if (typeof found.tokenize_chinese_chars === 'function') {
    found.tokenize_chinese_chars = (text) => text.replace(ideographs, ' $& ');
  }
  if (config?.type === 'Lowercase' || config?.lowercase === true) {
    found.normalize = (text) => normalize(text.replaceAll('Σ', 'σ'));
  }
  if (config?.type === 'Replace') {
    const { pattern = {}, content = '' } = config;
    const expression = textPattern(pattern);
    found.normalize = (text) => replaceMatches(text, expression, content);
  }
  if (config?.type === 'Strip') {
    const ends = [
      ...(config.strip_left === true ? ['^\\p{White_Space}+'] : []),
      ...(config.strip_right === true ? ['(?<!\\p{White_Space})\\p{White_Space}+$'] : []),
    ];
    const pattern = new RegExp(ends.join('|'), 'gu');
    found.normalize = (text) => (ends.length === 0 ? text : text.replace(pattern, ''));
  }
}

/** Internals of a pre-tokenizer of the library. */
interface LibraryPreTokenizer {
  readonly tokenizers?: readonly (LibraryPreTokenizer | null)[];
  pattern?: RegExp;
  /** The character for a space; only a Metaspace has it. */
  readonly replacement?: string;
  pre_tokenize_text?: (text: string, options?: unknown) => string[];
}

const word = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}';
const punctuation = '\\p{P}!-/:-@[-`{-~';
const wordsAndSymbols = new RegExp(`[${word}]+|[^${word}\\p{White_Space}]+`, 'gu');
const blackSpace = /\P{White_Space}+/gu;
const wordsAndPunctuation = new RegExp(`[^\\p{White_Space}${punctuation}]+|[${punctuation}]`, 'gu');
const onePunctuation = new RegExp(`[${punctuation}]`, 'gu');

/** A pre-tokenizer in tokenizer.json. */
interface PreTokenizerSettings {
  readonly type?: string;
  readonly pretokenizers?: readonly unknown[];
  readonly individual_digits?: boolean;
  readonly split?: boolean;
  readonly add_prefix_space?: boolean;
  readonly use_regex?: boolean;
  /** Only a Split has it. */
  readonly pattern?: PatternSettings;
  readonly invert?: boolean;
  /** Only a Split or Punctuation has it. */
  readonly behavior?: SplitBehavior;
  readonly length?: number;
}

/**
 * Corrects pre-tokenizers of @huggingface/tokenizers 0.2.0, in place, where the tokenizers library gives
 * other words: its white space is Unicode's White_Space, which has U+0085 and not U+FEFF; its words and
 * numbers are those of all scripts; its Metaspace begins a word at every space unless told otherwise; its
 * ByteLevel spells each word once; its Split reads expressions as Oniguruma and has five behaviors, which
 * Punctuation has too.
 *
 * @param config the pre-tokenizer in tokenizer.json
 */
export function correctPreTokenizer(preTokenizer: unknown, config: unknown): void {
  // Instances of the library can be called: they are functions.
  const found = preTokenizer as LibraryPreTokenizer | null | undefined;
  const settings = config as PreTokenizerSettings | null | undefined;
  if (found === null || found === undefined) return;
  for (const [i, part] of (found.tokenizers ?? []).entries()) {
    correctPreTokenizer(part, settings?.pretokenizers?.[i]);
  }
  switch (settings?.type) {
    case 'ByteLevel':
      found.pre_tokenize_text = byteLevelWords(settings);
      return;
    case 'Whitespace':
      found.pre_tokenize_text = (text) => text.match(wordsAndSymbols) ?? [];
      return;
    case 'WhitespaceSplit':
      found.pre_tokenize_text = (text) => text.match(blackSpace) ?? [];
      return;
    case 'BertPreTokenizer':
      found.pre_tokenize_text = (text) => text.match(wordsAndPunctuation) ?? [];
      return;
    case 'Metaspace':
      if (settings.split !== false) splitAtSpaces(found);
      return;
    case 'Split':
      found.pre_tokenize_text = splitAtPattern(settings);
      return;
    case 'Punctuation':
      found.pre_tokenize_text = splitAtPunctuation(settings);
      return;
    case 'FixedLength':
      found.pre_tokenize_text = (text) => piecesOf(text, settings.length ?? 5);
      return;
    case 'Digits':
      found.pattern = settings.individual_digits === true ? /\P{N}+|\p{N}/gu : /\P{N}+|\p{N}+/gu;
  }
}

/** Returns the words of a text as GPT-2 finds them, spelt in the alphabet of bytes. */
function byteLevelWords(settings: { add_prefix_space?: boolean; use_regex?: boolean }) {
  const { add_prefix_space: addsSpace = false, use_regex: splits = true } = settings;
  const spell = rememberWords((word) => {
    let spelt = '';
    for (const byte of Buffer.from(word, 'utf8')) spelt += byteAlphabet[byte];
    return spelt;
  });
  return (text: string): string[] => {
    const spaced = addsSpace && !text.startsWith(' ') ? ` ${text}` : text;
    return (splits ? (spaced.match(gpt2WordPattern) ?? []) : [spaced]).map(spell);
  };
}

function splitAtPattern({ pattern = {}, behavior = 'Isolated', invert = false }: PreTokenizerSettings) {
  const expression = textPattern(pattern);
  return (text: string): string[] => splitText(text, { pattern: expression, behavior, invert });
}

function splitAtPunctuation({ behavior = 'Isolated' }: PreTokenizerSettings) {
  return (text: string): string[] => splitText(text, { pattern: onePunctuation, behavior });
}

/** Returns pieces of so many code points. */
function piecesOf(text: string, length: number): string[] {
  const characters = Array.from(text);
  const pieces: string[] = [];
  for (let start = 0; start < characters.length; start += length) {
    pieces.push(characters.slice(start, start + length).join(''));
  }
  return pieces;
}

/** Lets every stand-in for a space begin a word. */
function splitAtSpaces(metaspace: LibraryPreTokenizer): void {
  const { replacement = '\u2581' } = metaspace;
  const withSpaces = metaspace.pre_tokenize_text!.bind(metaspace);
  metaspace.pre_tokenize_text = (text, options) =>
    withSpaces(text, options).flatMap((marked) => {
      const [first, ...words] = marked.split(replacement);
      return [...(first === '' ? [] : [first!]), ...words.map((word) => replacement + word)];
    });
}

/** Internals of a model of the library. */
interface LibraryModel {
  readonly tokens_to_ids: ReadonlyMap<string, number>;
  encode(words: readonly string[]): string[];
  tokenize?(word: string): string[];
}

/**
 * Corrects models of @huggingface/tokenizers 0.2.0, in place, for long words: WordPiece took time that is
 * cubic in their length, and Unigram ran out of stack.
 */
export function correctModel(model: unknown, json: TokenizerJson['model']): void {
  const found = model as LibraryModel;
  if (json.type === 'WordPiece') {
    const split = wordPieceSplitter(json, found.tokens_to_ids);
    found.encode = (words) => words.flatMap((word) => split(word).map(({ token }) => token));
  }
  if (json.type === 'Unigram') found.encode = (words) => words.flatMap((word) => found.tokenize!(word));
}

/** Internals of a decoder of the library. */
interface LibraryDecoder {
  readonly decoders?: readonly (LibraryDecoder | null)[];
  decode_chain(tokens: readonly string[]): string[];
}

/** A decoder in tokenizer.json. */
interface DecoderSettings {
  readonly type?: string;
  readonly decoders?: readonly unknown[];
  readonly prepend_scheme?: string;
  readonly replacement?: string;
  /** Only a Replace has it. */
  readonly pattern?: PatternSettings;
  readonly content?: string;
}

/**
 * Corrects decoders of @huggingface/tokenizers 0.2.0, in place: a run of byte tokens that is not valid UTF-8
 * becomes one U+FFFD for each of its bytes, valid ones included, as in the tokenizers library, and a byte
 * order mark stays. Metaspace takes away all spaces of the first token, and none where it prepends none.
 * Replace reads expressions as Oniguruma, and `$` of its content as it is.
 *
 * @param settings the decoder in tokenizer.json
 */
export function correctDecoder(decoder: unknown, settings: unknown): void {
  // Instances of the library can be called: they are functions.
  const found = decoder as LibraryDecoder | null | undefined;
  if (found === null || found === undefined) return;
  const config = settings as DecoderSettings | null | undefined;
  for (const [i, part] of (found.decoders ?? []).entries()) correctDecoder(part, config?.decoders?.[i]);
  if (config?.type === 'ByteFallback') found.decode_chain = joinBytes;
  if (config?.type === 'Replace') {
    const { pattern = {}, content = '' } = config;
    const expression = textPattern(pattern);
    found.decode_chain = (tokens) => tokens.map((token) => replaceMatches(token, expression, content));
  }
  if (config?.type === 'Metaspace') {
    const { replacement = '\u2581', prepend_scheme: scheme } = config;
    found.decode_chain = (tokens) =>
      tokens.map((token, index) =>
        token.replaceAll(replacement, index === 0 && scheme !== 'never' ? '' : ' '),
      );
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function joinBytes(tokens: readonly string[]): string[] {
  const texts: string[] = [];
  let run: number[] = [];
  const endRun = (): void => {
    if (run.length > 0) texts.push(textOfBytes(run));
    run = [];
  };
  for (const token of tokens) {
    const byte = /^<0x([0-9a-f]{2})>$/i.exec(token)?.[1];
    if (byte !== undefined) {
      run.push(Number.parseInt(byte, 16));
      continue;
    }
    endRun();
    texts.push(token);
  }
  endRun();
  return texts;
}

function textOfBytes(bytes: readonly number[]): string {
  try {
    return utf8.decode(Uint8Array.from(bytes));
  } catch {
    // Not UTF-8.
    return '\ufffd'.repeat(bytes.length);
  }
}
