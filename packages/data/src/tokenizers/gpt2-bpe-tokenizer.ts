import { ConfigurationError } from '@mtl/errors';
import { checkIds } from './check-ids.js';
import { makeHuggingFaceTokenizer } from './hugging-face-tokenizer.js';
import { readJsonFile, readTextFile } from './read-json-file.js';
import type { Tokenizer } from './tokenizer.js';
import type { TokenizerOptions } from './tokenizer-options.js';

const vocabularySize = 50257;
const endOfText = 50256;

/**
 * GPT-2's byte-level BPE: the real vocabulary (built in), or one from `vocab.json` and `merges.txt`. Text
 * that looks like `<|endoftext|>` is plain text with the built-in vocabulary.
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
      'only one of --vocab-file and --merge-file is given',
      {
        remedy: 'pass both, or none for the built-in GPT-2 vocabulary',
      },
    );
  }
  // Loaded on demand: the vocabulary takes 50 ms to import.
  const { encode, decode } = await import('gpt-tokenizer/encoding/r50k_base');
  const asText = { disallowedSpecial: new Set<string>() };
  return {
    name: 'GPT2BPETokenizer',
    vocabularySize,
    eod: endOfText,
    identifiers: { class: 'mtl.GPT2BPETokenizer', tokenizer_path: null },
    options: { type: 'GPT2BPETokenizer' },
    encode: (text) => encode(text, asText),
    decode: (ids) => {
      checkIds(ids, vocabularySize);
      return decode(ids as Iterable<number> & ArrayLike<number>);
    },
  };
}

function fromFiles(
  options: Extract<TokenizerOptions, { type: 'GPT2BPETokenizer' }> & { vocabFile: string; mergeFile: string },
): Tokenizer {
  const { vocabFile, mergeFile } = options;
  const vocab = readJsonFile(vocabFile);
  const lines = readTextFile(mergeFile).split(/\r?\n/);
  const merges = lines.filter((line, i) => line !== '' && !(i === 0 && line.startsWith('#version')));
  const id = (vocab as Record<string, unknown> | null)?.['<|endoftext|>'];
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  return makeHuggingFaceTokenizer({
    name: 'GPT2BPETokenizer',
    path: vocabFile,
    json: {
      model: { type: 'BPE', vocab, merges },
      added_tokens: id === undefined ? [] : [{ id, content: '<|endoftext|>', special: true }],
      pre_tokenizer: byteLevel,
      decoder: byteLevel,
    },
    options,
  });
}
