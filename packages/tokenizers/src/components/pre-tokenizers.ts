import { gpt2WordPattern, spellBytes } from '../gpt2-vocabulary.js';
import { rememberWords } from '../remember-words.js';
import type { Component } from './component.js';
import type { TracedText } from './normalizer.js';
import { findAll, splitBehaviors, splitText, textPattern, withoutNewerCharacters } from './text-pattern.js';
import { splitAtScripts } from './unicode-scripts.js';
import { punctuation, wordCharacter } from './unicode-versions.js';

/** Splits normalized texts into words, which the model encodes separately. */
export interface PreTokenizer {
  /** True if the words depend on whether `text` contains the first character of the original text. */
  readonly asksForFront: boolean;
  split(text: string, front: number): string[];
  /**
   * Splits in the same way as `split`, and marks words that begin with the first character of the original
   * text.
   */
  trace(text: TracedText): TracedText[];
}

/**
 * Makes a pre-tokenizer that splits exactly like version 0.23 of the `tokenizers` library. Throws
 * `MTL_DATA_TOKENIZER` for an unsupported type.
 */
export function makePreTokenizer(component: Component): PreTokenizer {
  switch (component.type) {
    case 'Sequence':
      return sequence(component.parts('pretokenizers').map(makePreTokenizer));
    case 'ByteLevel':
      return byteLevel(component);
    case 'Metaspace':
      return metaspace(component);
    case 'Whitespace':
      return byMatches(wordsAndSymbols);
    case 'WhitespaceSplit':
      return byMatches(/\P{White_Space}+/gu);
    case 'BertPreTokenizer':
      return byMatches(wordsAndPunctuation);
    case 'Digits':
      return byMatches(component.boolean('individual_digits') ? /\P{N}+|\p{N}/gu : /\P{N}+|\p{N}+/gu);
    case 'Punctuation': {
      const behavior = component.choice('behavior', splitBehaviors, 'Isolated');
      const pattern = findAll(onePunctuation);
      return bySplits((text) => splitText(text, { pattern, behavior }));
    }
    case 'Split':
      return atPattern(component);
    case 'CharDelimiterSplit': {
      const pattern = textPattern({ String: component.character('delimiter') });
      return bySplits((text) => splitText(text, { pattern, behavior: 'Removed' }));
    }
    case 'FixedLength':
      return fixedLength(component.count('length', { minimum: 1, fallback: 5 }));
    case 'UnicodeScripts':
      return bySplits(splitAtScripts);
    default:
      return component.refuse('type', preTokenizerTypes.join(', '));
  }
}

const preTokenizerTypes = [
  'BertPreTokenizer',
  'ByteLevel',
  'CharDelimiterSplit',
  'Digits',
  'FixedLength',
  'Metaspace',
  'Punctuation',
  'Sequence',
  'Split',
  'UnicodeScripts',
  'Whitespace',
  'WhitespaceSplit',
];

const wordsAndSymbols = new RegExp(`[${wordCharacter}]+|[^[${wordCharacter}]\\p{White_Space}]+`, 'gv');
const wordsAndPunctuation = new RegExp(
  `[^\\p{White_Space}[${punctuation}]]+|[[${punctuation}]--[\\p{White_Space}]]`,
  'gv',
);
const onePunctuation = new RegExp(`[${punctuation}]`, 'gv');

/**
 * Rejects a `Metaspace` with the scheme `first` if, after a charsmap and a conversion to bytes, it splits
 * words that earlier pre-tokenizers made. The first word would then depend on how the tokenizers library
 * counts positions, which is not reproduced here.
 *
 * @throws DataError MTL_DATA_TOKENIZER
 */
export function refuseUnknownFront(
  normalizer: Component | undefined,
  preTokenizer: Component | undefined,
): void {
  const normalizers = new Set(listComponents(normalizer, 'normalizers').map(({ type }) => type));
  if (!normalizers.has('Precompiled') || !normalizers.has('ByteLevel')) return;
  const [, ...later] = listComponents(preTokenizer, 'pretokenizers');
  for (const component of later) {
    if (component.type !== 'Metaspace' || component.value('prepend_scheme') !== 'first') continue;
    component.refuse('prepend_scheme', 'always or never, after a Precompiled and a ByteLevel normalizer');
  }
}

/**
 * Returns the components of a sequence and of the sequences in it. For a component of a different type,
 * returns only the component.
 */
function listComponents(component: Component | undefined, field: string): Component[] {
  if (component?.type !== 'Sequence') return component === undefined ? [] : [component];
  return component.parts(field).flatMap((part) => listComponents(part, field));
}

function sequence(preTokenizers: readonly PreTokenizer[]): PreTokenizer {
  const trace = (traced: TracedText): TracedText[] => {
    let words = [traced];
    for (const preTokenizer of preTokenizers) words = words.flatMap((word) => preTokenizer.trace(word));
    return words;
  };
  // later pre-tokenizers may need to know which word is at the front of the text
  const asksForFront = preTokenizers.some((preTokenizer) => preTokenizer.asksForFront);
  return {
    asksForFront,
    split: (text, front) => {
      if (asksForFront) return trace({ text, front }).map((word) => word.text);
      let words = [text];
      for (const preTokenizer of preTokenizers) words = words.flatMap((word) => preTokenizer.split(word, 0));
      return words;
    },
    trace,
  };
}

/**
 * Makes a pre-tokenizer whose words are sections of the text. `ranges` returns the start and end of each
 * section, one section after the other.
 */
function bySplits(ranges: (text: string) => number[]): PreTokenizer {
  return {
    asksForFront: false,
    split: (text) => {
      const words: string[] = [];
      const split = ranges(text);
      for (let i = 0; i < split.length; i += 2) words.push(text.slice(split[i], split[i + 1]));
      return words;
    },
    trace: ({ text, front }) => {
      const words: TracedText[] = [];
      const split = ranges(text);
      for (let i = 0; i < split.length; i += 2) {
        const [start, end] = [split[i]!, split[i + 1]!];
        const length = Math.max(0, Math.min(front, end) - start);
        words.push({ text: text.slice(start, end), front: length });
      }
      return words;
    },
  };
}

/** Makes a pre-tokenizer whose words are the matches of a global regular expression. */
function byMatches(pattern: RegExp): PreTokenizer {
  const find = findAll(pattern);
  return { ...bySplits(find), split: (text) => text.match(pattern) ?? [] };
}

function atPattern(component: Component): PreTokenizer {
  const settings = component.pattern('pattern');
  const behavior = component.choice('behavior', splitBehaviors);
  const invert = component.boolean('invert', false);
  const pattern = component.read('pattern', () => textPattern(settings));
  return bySplits((text) => component.read('pattern', () => splitText(text, { pattern, behavior, invert })));
}

/** Makes a pre-tokenizer that splits a text into pieces of `length` code points. */
function fixedLength(length: number): PreTokenizer {
  return bySplits((text) => {
    const split: number[] = [];
    let start = 0;
    let end = 0;
    let count = 0;
    for (const character of text) {
      end += character.length;
      if (++count < length) continue;
      split.push(start, end);
      start = end;
      count = 0;
    }
    if (end > start) split.push(start, end);
    return split;
  });
}

/** Makes a pre-tokenizer that finds words as GPT-2 does, and writes their bytes in the byte alphabet. */
function byteLevel(component: Component): PreTokenizer {
  const addsSpace = component.boolean('add_prefix_space', false);
  const splits = component.boolean('use_regex', true);
  component.boolean('trim_offsets', true);
  const spell = rememberWords(spellBytes);
  const find = findAll(gpt2WordPattern);
  const spaced = (text: string) => (addsSpace && text !== '' && !text.startsWith(' ') ? ` ${text}` : text);
  const words = bySplits((text) => (splits ? find(withoutNewerCharacters(text)) : [0, text.length]));
  return {
    asksForFront: false,
    split: (text) => {
      const whole = spaced(text);
      if (!splits) return whole === '' ? [] : [spell(whole)];
      // the plain pattern is used unless the text has characters from newer versions of Unicode, which is
      // rare
      const isKnown = withoutNewerCharacters(whole) === whole;
      return (isKnown ? (whole.match(gpt2WordPattern) ?? []) : words.split(whole, 0)).map(spell);
    },
    trace: ({ text, front }) => {
      const whole = spaced(text);
      const added = front > 0 ? whole.length - text.length : 0;
      return words
        .trace({ text: whole, front: front + added })
        .map((word) => ({ text: spell(word.text), front: spell(word.text.slice(0, word.front)).length }));
    },
  };
}

/** Makes a pre-tokenizer that replaces each space by a visible character, at which a new word begins. */
function metaspace(component: Component): PreTokenizer {
  const { replacement, scheme, splits } = metaspaceSettings(component);
  const pattern = textPattern({ String: replacement });
  const marked = (text: string, front: number): string => {
    const replaced = text.replaceAll(' ', replacement);
    const prepends = scheme === 'always' || (scheme === 'first' && front > 0);
    return prepends && !replaced.startsWith(replacement) ? replacement + replaced : replaced;
  };
  const words = bySplits((text) => splitText(text, { pattern, behavior: 'MergedWithNext' }));
  return {
    asksForFront: scheme === 'first',
    split: (text, front) => {
      if (text === '') return [];
      const whole = marked(text, front);
      if (!splits) return [whole];
      const [first, ...others] = whole.split(replacement);
      const spaced = others.map((word) => replacement + word);
      return first === '' ? spaced : [first!, ...spaced];
    },
    trace: ({ text, front }) => {
      if (text === '') return [];
      const whole = marked(text, front);
      const replaced = text.replaceAll(' ', replacement);
      // the replacement may be longer than a space, so lengths are measured after spaces are replaced
      const ahead = text.slice(0, front).replaceAll(' ', replacement).length;
      const traced = { text: whole, front: front > 0 ? ahead + whole.length - replaced.length : 0 };
      return splits ? words.trace(traced) : [traced];
    },
  };
}

/**
 * Returns the settings of a Metaspace, which is a pre-tokenizer or a decoder. Old files have only
 * `add_prefix_space`.
 */
export function metaspaceSettings(component: Component): {
  readonly replacement: string;
  readonly scheme: 'always' | 'never' | 'first';
  readonly splits: boolean;
} {
  const replacement = component.character('replacement');
  const addsSpace = component.optionalBoolean('add_prefix_space');
  const scheme = component.choice('prepend_scheme', ['always', 'never', 'first'], 'always');
  if (addsSpace === false && scheme !== 'never')
    component.refuse('add_prefix_space', `true, or "prepend_scheme": "never" next to it`);
  return { replacement, scheme, splits: component.optionalBoolean('split') ?? true };
}
