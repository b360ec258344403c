import { ConfigurationError, DataError, nearestName } from '@mtl/errors';
import { BytePairEncoder } from './byte-pair-encoder.js';
import {
  byteLevelBpeJson,
  endOfText,
  gpt2WordPattern,
  loadGpt2Vocabulary,
  readGpt2Files,
} from './gpt2-vocabulary.js';
import { loadHuggingFaceTokenizer, makeHuggingFaceTokenizer } from './load-tokenizer-json.js';
import { checkIds, type Tokenizer, type TokenizerOptions, tokenizerTypes } from './tokenizer.js';
import { readTextFile } from './tokenizer-files.js';

/** Makes a tokenizer; throws a coded error for an unknown type or an unusable file. */
export async function createTokenizer(options: TokenizerOptions): Promise<Tokenizer> {
  switch (options.type) {
    case 'GPT2BPETokenizer':
      return createGpt2BpeTokenizer(options);
    case 'HuggingFaceTokenizer':
      return loadHuggingFaceTokenizer(options);
    case 'BertWordPieceLowerCase':
    case 'BertWordPieceCase':
      return createBertWordPieceTokenizer(options);
    case 'ByteLevelTokenizer':
      return createByteLevelTokenizer(options);
    case 'NullTokenizer':
      return createNullTokenizer(options);
    default: {
      const type = String((options as { type?: unknown }).type);
      const near = nearestName(type, tokenizerTypes);
      throw new ConfigurationError('MTL_DATA_TOKENIZER_TYPE', `unknown type ${type} of tokenizer`, {
        expected: tokenizerTypes.join(', '),
        ...(near === undefined ? {} : { remedy: `use ${near}` }),
      });
    }
  }
}

/**
 * Makes a byte-level BPE tokenizer with GPT-2's built-in vocabulary, or with a vocabulary from `vocab.json`
 * and `merges.txt`. With the built-in vocabulary, the string `<|endoftext|>` is encoded as plain text.
 */
async function createGpt2BpeTokenizer(
  options: Extract<TokenizerOptions, { type: 'GPT2BPETokenizer' }>,
): Promise<Tokenizer> {
  const { vocabFile, mergeFile } = options;
  if (vocabFile !== undefined && mergeFile !== undefined)
    return gpt2FromFiles({ ...options, vocabFile, mergeFile });
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
  return builtInGpt2(await loadGpt2Vocabulary(), options);
}

function builtInGpt2(tokens: readonly string[], options: TokenizerOptions): Tokenizer {
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

/** Returns the UTF-8 bytes of `text` as a string with one character for each byte. */
function byteString(text: string): string {
  return isAscii.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

function gpt2FromFiles(
  options: Extract<TokenizerOptions, { type: 'GPT2BPETokenizer' }> & { vocabFile: string; mergeFile: string },
): Tokenizer {
  return makeHuggingFaceTokenizer({
    name: 'GPT2BPETokenizer',
    path: options.vocabFile,
    json: byteLevelBpeJson(readGpt2Files(options)),
    options,
  });
}

/**
 * Makes a tokenizer with one token for each UTF-8 byte (ids 0 to 255). Id 256 ends a document. The tokenizer
 * needs no files, and decoding always returns the original text.
 */
function createByteLevelTokenizer(
  options: Extract<TokenizerOptions, { type: 'ByteLevelTokenizer' }>,
): Tokenizer {
  const endOfDocument = 256;
  const encoder = new TextEncoder();
  // byte order marks must be decoded like any character
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
      // The end-of-document token has no bytes.
      return decoder.decode(Uint8Array.from(known.filter((id) => id < endOfDocument)));
    },
  };
}

/**
 * Makes a tokenizer for corpora that already consist of ids ("17 4 230"). The vocabulary has exactly
 * `vocabSize` ids, and the last id ends documents.
 */
function createNullTokenizer(options: Extract<TokenizerOptions, { type: 'NullTokenizer' }>): Tokenizer {
  const { vocabSize } = options;
  if (!Number.isInteger(vocabSize) || vocabSize < 1) {
    throw new ConfigurationError('MTL_DATA_TOKENIZER_SIZE', `a NullTokenizer of ${vocabSize} ids`, {
      expected: 'vocabSize (--vocab-size), the number of ids: a whole number of 1 or more',
    });
  }
  return {
    name: 'NullTokenizer',
    vocabularySize: vocabSize,
    eod: vocabSize - 1,
    identifiers: { class: 'mtl.NullTokenizer', vocab_size: String(vocabSize) },
    options,
    encode: (text) =>
      text.split(/\s+/).flatMap((word) => {
        if (word === '') return [];
        const id = Number(word);
        if (/^\d+$/.test(word) && id < vocabSize) return [id];
        throw new DataError('MTL_DATA_TOKEN_OUT_OF_VOCABULARY', `"${word}" is not a token id`, {
          expected: `integers from 0 to ${vocabSize - 1} with spaces between them`,
        });
      }),
    decode: (ids) => Array.from(ids).join(' '),
  };
}

/**
 * Makes BERT's WordPiece tokenizer from a `vocab.txt` with one token per line. Documents end with `[SEP]`.
 */
function createBertWordPieceTokenizer(
  options: Extract<TokenizerOptions, { type: 'BertWordPieceLowerCase' | 'BertWordPieceCase' }>,
): Tokenizer {
  const { type, vocabFile } = options;
  const tokens = readTextFile(vocabFile).split(/\r?\n/);
  while (tokens.at(-1) === '') tokens.pop();
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'].filter((token) =>
    Object.hasOwn(vocab, token),
  );
  const lowercase = type === 'BertWordPieceLowerCase';
  return makeHuggingFaceTokenizer({
    name: type,
    path: vocabFile,
    json: {
      model: {
        type: 'WordPiece',
        vocab,
        unk_token: '[UNK]',
        continuing_subword_prefix: '##',
        max_input_chars_per_word: 100,
      },
      added_tokens: special.map((content) => ({ id: vocab[content], content, special: true })),
      normalizer: {
        type: 'BertNormalizer',
        clean_text: true,
        handle_chinese_chars: true,
        strip_accents: null,
        lowercase,
      },
      pre_tokenizer: { type: 'BertPreTokenizer' },
      decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    },
    eodToken: '[SEP]',
    options,
  });
}
