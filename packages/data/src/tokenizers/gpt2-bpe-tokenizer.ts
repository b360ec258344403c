import { ConfigurationError } from '@mtl/errors';
import { BytePairEncoder } from './byte-pair-encoder.js';
import {
  byteLevelBpeJson,
  endOfText,
  gpt2WordPattern,
  loadGpt2Vocabulary,
  readGpt2Files,
} from './gpt2-vocabulary.js';
import { makeHuggingFaceTokenizer } from './hugging-face-tokenizer.js';
import { checkIds, type Tokenizer, type TokenizerOptions } from './tokenizer.js';

/**
 * Makes GPT-2's byte-level BPE: the real vocabulary (built in), or one from `vocab.json` and `merges.txt`.
 * Text that looks like `<|endoftext|>` is plain text with the built-in vocabulary.
 */
export async function createGpt2BpeTokenizer(
  options: Extract<TokenizerOptions, { type: 'GPT2BPETokenizer' }>,
): Promise<Tokenizer> {
  const { vocabFile, mergeFile } = options;
  if (vocabFile !== undefined && mergeFile !== undefined)
    return fromFiles({ ...options, vocabFile, mergeFile });
  if (vocabFile !== undefined || mergeFile !== undefined) {
    throw new ConfigurationError(
      'MTL_DATA_TOKENIZER_FILES',
      `a GPT2BPETokenizer has ${vocabFile === undefined ? 'mergeFile (--merge-file)' : 'vocabFile (--vocab-file)'} alone`,
      {
        expected: 'vocab.json and merges.txt',
        remedy: 'pass both, or none for the built-in GPT-2 vocabulary',
      },
    );
  }
  return builtIn(await loadGpt2Vocabulary(), options);
}

function builtIn(tokens: readonly string[], options: TokenizerOptions): Tokenizer {
  const encoder = new BytePairEncoder(new Map(tokens.map((token, id) => [token, id])));
  const bytes = [...tokens, endOfText].map((token) => Buffer.from(token, 'latin1'));
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  return {
    name: 'GPT2BPETokenizer',
    vocabularySize: bytes.length,
    eod: bytes.length - 1,
    identifiers: { class: 'mtl.GPT2BPETokenizer', tokenizer_path: null },
    options,
    encode: (text) => {
      const ids: number[] = [];
      for (const [word] of text.matchAll(gpt2WordPattern)) {
        for (const id of encoder.encode(byteString(word))) ids.push(id);
      }
      return ids;
    },
    decode: (ids) => {
      const known = checkIds(ids, bytes.length);
      return decoder.decode(Buffer.concat(known.map((id) => bytes[id]!)));
    },
  };
}

const isAscii = /^[\0-\x7f]*$/;

/** Returns the UTF-8 of a text, a character for each byte. */
function byteString(text: string): string {
  return isAscii.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

function fromFiles(
  options: Extract<TokenizerOptions, { type: 'GPT2BPETokenizer' }> & { vocabFile: string; mergeFile: string },
): Tokenizer {
  return makeHuggingFaceTokenizer({
    name: 'GPT2BPETokenizer',
    path: options.vocabFile,
    json: byteLevelBpeJson(readGpt2Files(options)),
    options,
  });
}
