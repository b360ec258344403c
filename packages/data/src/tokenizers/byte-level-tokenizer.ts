import { checkIds } from './check-ids.js';
import type { Tokenizer } from './tokenizer.js';
import type { TokenizerOptions } from './tokenizer-options.js';

const endOfDocument = 256;

/**
 * One token for each byte of UTF-8 (ids 0 to 255), and 256 ends a document. Needs no files, loses nothing.
 */
export function createByteLevelTokenizer(
  options: Extract<TokenizerOptions, { type: 'ByteLevelTokenizer' }>,
): Tokenizer {
  const encoder = new TextEncoder();
  // A byte order mark is a character like any other.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return {
    name: 'ByteLevelTokenizer',
    vocabularySize: endOfDocument + 1,
    eod: endOfDocument,
    identifiers: { class: 'mtl.ByteLevelTokenizer' },
    options,
    encode: (text) => Int32Array.from(encoder.encode(text)),
    decode: (ids) => {
      const known = checkIds(ids, endOfDocument + 1);
      // The end of a document has no bytes.
      return decoder.decode(Uint8Array.from(known.filter((id) => id < endOfDocument)));
    },
  };
}
