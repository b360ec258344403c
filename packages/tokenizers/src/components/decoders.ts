import { byteAlphabet } from '../gpt2-vocabulary.js';
import type { Component } from './component.js';
import { metaspaceSettings } from './pre-tokenizers.js';
import { replaceMatches, textPattern } from './text-pattern.js';

/** Converts tokens to strings, which are joined afterwards. The result is always a new list. */
export type Decoder = (tokens: readonly string[]) => readonly string[];

/**
 * Makes a decoder that decodes exactly like version 0.23 of the `tokenizers` library. Throws
 * `MTL_DATA_TOKENIZER` for an unsupported type.
 */
export function makeDecoder(component: Component): Decoder {
  switch (component.type) {
    case 'Sequence': {
      const decoders = component.parts('decoders').map(makeDecoder);
      return (tokens) => decoders.reduce((texts, decode) => decode(texts), tokens);
    }
    case 'ByteLevel':
      component.boolean('add_prefix_space', false);
      component.boolean('trim_offsets', true);
      component.boolean('use_regex', true);
      return (tokens) => [decodeByteLevel(tokens)];
    case 'ByteFallback':
      return joinBytes;
    case 'Fuse':
      return (tokens) => [tokens.join('')];
    case 'Metaspace': {
      const { replacement, scheme } = metaspaceSettings(component);
      return (tokens) =>
        tokens.map((token, i) => token.replaceAll(replacement, i === 0 && scheme !== 'never' ? '' : ' '));
    }
    case 'Replace': {
      const settings = component.pattern('pattern');
      const content = component.text('content');
      const pattern = component.read('pattern', () => textPattern(settings));
      return (tokens) =>
        component.read('pattern', () => tokens.map((token) => replaceMatches(token, pattern, content)));
    }
    case 'Strip':
      return strip(component);
    case 'WordPiece':
      return wordPiece(component.text('prefix'), component.boolean('cleanup'));
    case 'BPEDecoder': {
      const suffix = component.text('suffix');
      return (tokens) =>
        tokens.map((token, i) => replaceText(token, suffix, i === tokens.length - 1 ? '' : ' '));
    }
    case 'CTC':
      return ctc(component);
    default:
      return component.refuse('type', decoderTypes.join(', '));
  }
}

const decoderTypes = [
  'BPEDecoder',
  'ByteFallback',
  'ByteLevel',
  'CTC',
  'Fuse',
  'Metaspace',
  'Replace',
  'Sequence',
  'Strip',
  'WordPiece',
];

/**
 * Replaces all occurrences of `searched` by `content`. An empty string occurs before, between and after all
 * characters.
 */
function replaceText(text: string, searched: string, content: string): string {
  return searched === '' ? text.replace(/(?:)/gu, () => content) : text.replaceAll(searched, () => content);
}

const byteByCharacter = new Map(byteAlphabet.map((character, byte) => [character, byte]));
// byte order marks must be decoded like any character
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decodes tokens from the byte alphabet. A token that contains any other character is not changed. */
function decodeByteLevel(tokens: readonly string[]): string {
  const bytes: number[] = [];
  for (const token of tokens) {
    const own = Array.from(token, (character) => byteByCharacter.get(character));
    if (own.every((byte) => byte !== undefined)) for (const byte of own) bytes.push(byte);
    else for (const byte of Buffer.from(token, 'utf8')) bytes.push(byte);
  }
  return utf8.decode(Uint8Array.from(bytes));
}

/**
 * Joins consecutive byte tokens, such as `<0xE5>`, to characters. If the joined bytes are not valid UTF-8,
 * each byte becomes U+FFFD, even if some characters are valid.
 */
function joinBytes(tokens: readonly string[]): string[] {
  const texts: string[] = [];
  let run: number[] = [];
  const endRun = (): void => {
    if (run.length > 0) texts.push(...textOfBytes(run));
    run = [];
  };
  for (const token of tokens) {
    // the tokenizers library also accepts a plus sign in the number
    const byte = /^<0x([0-9a-f]{2}|\+[0-9a-f])>$/i.exec(token)?.[1];
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

function textOfBytes(bytes: readonly number[]): string[] {
  try {
    return [strictUtf8.decode(Uint8Array.from(bytes))];
  } catch {
    // The bytes are not valid UTF-8.
    return bytes.map(() => '\ufffd');
  }
}

function strip(component: Component): Decoder {
  const content = component.character('content');
  const [start, stop] = ['start', 'stop'].map((field) => component.count(field, { minimum: 0 })) as [
    number,
    number,
  ];
  return (tokens) =>
    tokens.map((token) => {
      const characters = Array.from(token);
      let from = 0;
      while (from < start && characters[from] === content) from++;
      let to = characters.length;
      while (characters.length - to < stop && to > from && characters[to - 1] === content) to--;
      return characters.slice(from, to).join('');
    });
}

/**
 * Replacements of English punctuation and contractions, in the order in which the `tokenizers` library
 * applies them.
 */
const artifacts: readonly (readonly [string, string])[] = [
  [' .', '.'],
  [' ?', '?'],
  [' !', '!'],
  [' ,', ','],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [' do not', " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

function cleanUp(text: string): string {
  return artifacts.reduce((cleaned, [artifact, content]) => cleaned.replaceAll(artifact, content), text);
}

function wordPiece(prefix: string, cleans: boolean): Decoder {
  return (tokens) =>
    tokens.map((token, i) => {
      const continues = i > 0 && token.startsWith(prefix);
      const text = i === 0 ? token : continues ? token.slice(prefix.length) : ` ${token}`;
      return cleans ? cleanUp(text) : text;
    });
}

/**
 * Makes the decoder of connectionist temporal classification, which merges consecutive equal tokens and
 * removes padding.
 */
function ctc(component: Component): Decoder {
  const padding = component.text('pad_token');
  const delimiter = component.text('word_delimiter_token');
  const cleans = component.boolean('cleanup');
  return (tokens) =>
    tokens
      .filter((token, i) => i === 0 || token !== tokens[i - 1])
      .map((token) => {
        const text = replaceText(token, padding, '');
        return cleans ? replaceText(cleanUp(text), delimiter, ' ') : text;
      })
      .filter((text) => text !== '');
}
