import { byteAlphabet } from '../training/byte-alphabet.js';
import { gpt2WordPattern } from './gpt2-word-pattern.js';
import { rememberWords } from './remember-words.js';
import { type PatternSettings, type SplitBehavior, splitText, textPattern } from './text-pattern.js';

/** What a pre-tokenizer of the library looks like to us. */
interface LibraryPreTokenizer {
  readonly tokenizers?: readonly (LibraryPreTokenizer | null)[];
  pattern?: RegExp;
  /** Of a Metaspace: what stands for a space. */
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
  /** Of a Split. */
  readonly pattern?: PatternSettings;
  readonly invert?: boolean;
  /** Of a Split or Punctuation. */
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

/** The words of a text as GPT-2 finds them, spelt in the alphabet of bytes. */
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

/** Pieces of so many code points. */
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
