import { rememberWords } from '../remember-words.js';
import type { Component } from './component.js';
import { type Normalizer, tracedNormalizer } from './normalizer.js';

/**
 * Makes the normalizer of a SentencePiece model. A compiled table (`precompiled_charsmap`) lists replacements
 * of characters and short graphemes. It contains the size of a double array as uint32, the double array, and
 * zero-terminated strings.
 */
export function precompiledNormalizer(component: Component): Normalizer {
  const replacement = rememberWords(readCharsmap(component));
  const normalizePiece = rememberWords((piece) => {
    let normalized = '';
    for (const { text, replaced } of replacements(piece, replacement)) normalized += replaced ?? text;
    return normalized;
  });
  const normalize = (text: string): string => {
    let normalized = '';
    for (const [piece] of text.matchAll(pieces)) normalized += normalizePiece(piece);
    return normalized;
  };
  return tracedNormalizer(normalize, ({ text, front }) => measureFront(text, front, replacement));
}

type Replacement = (part: string) => string | undefined;

// Characters that form a grapheme with the next character, such as the Arabic number sign.
const prepended =
  '\\u0600-\\u0605\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u0d4e\\u{110bd}\\u{110cd}\\u{111c2}\\u{111c3}\\u{113d1}\\u{1193f}' +
  '\\u{11941}\\u{11a84}-\\u{11a89}\\u{11d46}\\u{11f02}';
const [ascii, other] = ['[\\0-\\x7f]', '[^\\0-\\x7f]'];
// Matches pieces of a text that no grapheme crosses. Two neighbouring ASCII characters are separate
// graphemes, except `\r\n`.
const pieces = new RegExp(
  `\\r\\n(?!${other})|\\r?${ascii}?${other}+(?:(?<=[${prepended}])${ascii}${other}*)*|${ascii}`,
  'gu',
);

// the segmenter is created at its first use, because the creation takes some milliseconds
let segmenter: Intl.Segmenter | undefined;

/**
 * Yields the sections of `text`, each with its replacement, or undefined for a section without a replacement.
 */
function* replacements(
  text: string,
  replacement: Replacement,
): Generator<{ readonly text: string; readonly replaced: string | undefined }> {
  segmenter ??= new Intl.Segmenter('und', { granularity: 'grapheme' });
  for (const { segment } of segmenter.segment(text)) {
    const whole = Buffer.byteLength(segment) < 6 ? replacement(segment) : undefined;
    if (whole !== undefined) yield { text: segment, replaced: whole };
    else for (const character of segment) yield { text: character, replaced: replacement(character) };
  }
}

/**
 * Returns the length of the normalized front, which is the start of the text that belongs to its first
 * character. As in the tokenizers library, the text is processed character by character, and a replacement
 * that is longer or empty shifts the origins of all later characters.
 */
function measureFront(text: string, count: number, replacement: Replacement): number {
  let front = 0;
  // the number of the text's characters that the replacements so far cover
  let used = 0;
  const isFront = (index: number): boolean => {
    let units = 0;
    let i = 0;
    for (const character of text) {
      if (i++ === index) return units < count;
      units += character.length;
    }
    return false;
  };
  for (const { text: part, replaced } of replacements(text, replacement)) {
    const change = replaced === undefined ? 0 : [...replaced].length - [...part].length;
    for (const [i, character] of Array.from(replaced ?? part).entries()) {
      const isAdded = replaced !== undefined && (i === 0 ? change > 0 : true);
      const origin = isAdded ? used - 1 : used;
      if (!(origin < 0 ? count > 0 : isFront(origin))) return front;
      front += character.length;
      if (isAdded) continue;
      used += 1 + (i === 0 && change < 0 ? -change : 0);
    }
  }
  return front;
}

/**
 * Reads the table. Returns a function that finds the shortest prefix of a text that is in the table, and
 * returns its replacement.
 */
function readCharsmap(component: Component): Replacement {
  const field = 'precompiled_charsmap';
  const expected = "a SentencePiece model's table in base64";
  const encoded = component.text(field);
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(encoded))
    component.refuse(field, expected);
  const bytes = Buffer.from(encoded, 'base64');
  const size = bytes.length < 4 ? 0 : bytes.readUInt32LE(0) >>> 2;
  if (size === 0 || 4 + 4 * size > bytes.length) component.refuse(field, expected);
  const units = Uint32Array.from({ length: size }, (_, i) => bytes.readUInt32LE(4 + 4 * i));
  const texts = bytes.subarray(4 + 4 * size);
  component.read(field, () => new TextDecoder('utf-8', { fatal: true }).decode(texts));
  const corrupt = (): never => component.refuse(field, `${expected}; this one points outside of itself`);
  const unitAt = (node: number): number => (node < size ? units[node]! : corrupt());
  return (part) => {
    let node = computeOffset(unitAt(0));
    for (const byte of Buffer.from(part, 'utf8')) {
      if (byte === 0) return undefined;
      node = (node ^ byte) >>> 0;
      const unit = unitAt(node);
      // compares the label of a unit and the bit that is set if the unit is a value
      if ((unit & 0x800000ff) >>> 0 !== byte) return undefined;
      node = (node ^ computeOffset(unit)) >>> 0;
      if (((unit >>> 8) & 1) === 0) continue;
      const start = unitAt(node) & 0x7fffffff;
      if (start > texts.length) corrupt();
      const end = texts.indexOf(0, start);
      return texts.toString('utf8', start, end < 0 ? texts.length : end);
    }
    return undefined;
  };
}

/** Returns the offset from `unit` to its children. */
function computeOffset(unit: number): number {
  return ((unit >>> 10) << ((unit & (1 << 9)) >>> 6)) >>> 0;
}
