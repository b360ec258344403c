import { makeHuggingFaceTokenizer } from './hugging-face-tokenizer.js';
import { readTextFile } from './read-json-file.js';
import type { Tokenizer } from './tokenizer.js';
import type { TokenizerOptions } from './tokenizer-options.js';

/** BERT's WordPiece from a `vocab.txt` (one token a line); documents end with `[SEP]`. */
export function createBertWordPieceTokenizer(
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
