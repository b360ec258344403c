import { spellBytes } from '../gpt2-vocabulary.js';
import { rememberWords } from '../remember-words.js';
import type { Component } from './component.js';
import { type Normalizer, tracedNormalizer } from './normalizer.js';
import { precompiledNormalizer } from './precompiled-charsmap.js';
import { replaceMatches, type TextPattern, textPattern } from './text-pattern.js';
import { combiningMark, control, newerThanUnicode9, nonSpacingMark } from './unicode-versions.js';

/**
 * Makes a normalizer that normalizes exactly like version 0.23 of the `tokenizers` library. Throws
 * `MTL_DATA_TOKENIZER` for an unsupported type.
 */
export function makeNormalizer(component: Component): Normalizer {
  switch (component.type) {
    case 'Sequence':
      return sequence(component.parts('normalizers').map(makeNormalizer));
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD':
      return byPrefix(unicodeForm(component.type));
    case 'Lowercase':
      return byPrefix(lowerCase);
    case 'StripAccents':
      return byPrefix((text) => text.replace(combiningMarks, ''));
    case 'Nmt':
      return byPrefix((text) => text.replace(nmtControls, '').replace(nmtSpaces, ' '));
    case 'ByteLevel':
      return byPrefix(rememberWords(spellBytes));
    case 'BertNormalizer':
      return bert(component);
    case 'Strip':
      return strip(component);
    case 'Prepend':
      return prepend(component.text('prepend'));
    case 'Replace': {
      const settings = component.pattern('pattern');
      const pattern = component.read('pattern', () => textPattern(settings));
      return replace((text) => component.read('pattern', () => pattern(text)), component.text('content'));
    }
    case 'Precompiled':
      return precompiledNormalizer(component);
    default:
      return component.refuse('type', normalizerTypes.join(', '));
  }
}

const normalizerTypes = [
  'BertNormalizer',
  'ByteLevel',
  'Lowercase',
  'NFC',
  'NFD',
  'NFKC',
  'NFKD',
  'Nmt',
  'Precompiled',
  'Prepend',
  'Replace',
  'Sequence',
  'Strip',
  'StripAccents',
];

function sequence(normalizers: readonly Normalizer[]): Normalizer {
  return {
    normalize: (text) => normalizers.reduce((changed, normalizer) => normalizer.normalize(changed), text),
    trace: (traced) => normalizers.reduce((changed, normalizer) => normalizer.trace(changed), traced),
  };
}

/**
 * Makes a normalizer that changes or drops characters one by one, so that prefixes can be normalized
 * separately.
 */
function byPrefix(normalize: (text: string) => string): Normalizer {
  return tracedNormalizer(normalize, ({ text, front }) => normalize(text.slice(0, front)).length);
}

const newer = new RegExp(`[${newerThanUnicode9}]`, 'u');
const betweenNewer = new RegExp(`[^${newerThanUnicode9}]+`, 'gu');

/**
 * Returns a function for Unicode normalization as in the `tokenizers` library. The library ignores characters
 * that are newer than Unicode 9, so the text between such characters is normalized separately.
 */
function unicodeForm(form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): (text: string) => string {
  return (text) =>
    newer.test(text) ? text.replace(betweenNewer, (part) => part.normalize(form)) : text.normalize(form);
}

/**
 * Converts each character separately to lower case, so that a capital sigma becomes the same letter
 * everywhere in a word.
 */
function lowerCase(text: string): string {
  return text.replaceAll('Σ', 'σ').toLowerCase();
}

const combiningMarks = new RegExp(`[${combiningMark}]`, 'gv');
const nonSpacingMarks = new RegExp(`[${nonSpacingMark}]`, 'gv');

// Control characters that SentencePiece's rules for machine translation drop or replace by spaces.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern searches for them
const nmtControls = /[\u0001-\u0008\u000b\u000e-\u001f\u007f\u008f\u009f]/g;
const nmtSpaces = /[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]/g;

const controls = new RegExp(`[${control}]`, 'gu');
const spaces = /\p{White_Space}/gu;
// CJK ideographs as defined by BERT: unified blocks, some extension blocks, and compatibility blocks
const ideographs =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

function bert(component: Component): Normalizer {
  const cleans = component.boolean('clean_text');
  const separates = component.boolean('handle_chinese_chars');
  const lowers = component.boolean('lowercase');
  const strips = component.optionalBoolean('strip_accents') ?? lowers;
  const decompose = unicodeForm('NFD');
  const clean = (text: string) => text.replace(controls, '').replace(spaces, ' ');
  const separate = (text: string) => text.replace(ideographs, ' $& ');
  const finish = (text: string) => {
    const stripped = strips ? decompose(text).replace(nonSpacingMarks, '') : text;
    return lowers ? lowerCase(stripped) : stripped;
  };
  const start = (text: string) => {
    const cleaned = cleans ? clean(text) : text;
    return separates ? separate(cleaned) : cleaned;
  };
  return byPrefix((text) => finish(start(text)));
}

function strip(component: Component): Normalizer {
  const isLeft = component.boolean('strip_left');
  const ends = [
    ...(isLeft ? ['^\\p{White_Space}+'] : []),
    ...(component.boolean('strip_right') ? ['(?<!\\p{White_Space})\\p{White_Space}+$'] : []),
  ];
  const pattern = new RegExp(ends.join('|'), 'gu');
  return tracedNormalizer(
    (text) => (ends.length === 0 ? text : text.replace(pattern, '')),
    ({ text, front }) => {
      const removed = isLeft ? /^\p{White_Space}*/u.exec(text)![0].length : 0;
      return front - removed;
    },
  );
}

function prepend(prefix: string): Normalizer {
  return tracedNormalizer(
    (text) => (text === '' ? '' : prefix + text),
    ({ front }) => (front === 0 ? 0 : front + prefix.length),
  );
}

function replace(pattern: TextPattern, content: string): Normalizer {
  return tracedNormalizer(
    (text) => replaceMatches(text, pattern, content),
    ({ text, front }) => {
      const found = pattern(text);
      let replaced = front;
      for (let i = 0; i < found.length && found[i]! < front; i += 2) {
        const [start, end] = [found[i]!, found[i + 1]!];
        // a replacement belongs to the last character that it replaces
        replaced += end <= front ? content.length - (end - start) : start - front;
      }
      return replaced;
    },
  );
}
