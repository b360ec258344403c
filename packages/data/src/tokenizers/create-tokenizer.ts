import { ConfigurationError, DataError, nearestName } from '@mtl/errors';
import { createGpt2BpeTokenizer } from './gpt2-bpe-tokenizer.js';
import { loadHuggingFaceTokenizer, makeHuggingFaceTokenizer } from './hugging-face-tokenizer.js';
import { checkIds, type Tokenizer, type TokenizerOptions, tokenizerTypes } from './tokenizer.js';
import { readTextFile } from './tokenizer-json-file.js';

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

const endOfDocument = 256;

/**
 * Makes a tokenizer with one token for each byte of UTF-8 (ids 0 to 255); 256 ends a document. It needs no
 * files and loses nothing.
 */
function createByteLevelTokenizer(
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

/**
 * Makes a tokenizer for corpora that are ids already ("17 4 230"): the vocabulary is exactly `vocabSize`, the
 * last id ends documents.
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

/** Makes BERT's WordPiece from a `vocab.txt` (one token a line); documents end with `[SEP]`. */
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
