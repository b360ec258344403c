import { CheckpointError } from '@mtl/errors';
import {
  type JsonObject,
  type RefuseTokenizer,
  readObject,
  readTemplate,
  readText,
  type TokenizerFiles,
} from '../gguf/tokenizer/tokenizer-files.js';

const refuse: RefuseTokenizer = (problem, expected, remedy) =>
  new CheckpointError('MTL_ONNX_TOKENIZER', `ONNX: ${problem}`, { expected, remedy, exitCode: 2 });

/** The properties of a model on which its tokenizer's files depend. */
interface TokenizedModel {
  readonly maxPositionEmbeddings: number;
  /** The tokens that end a text. */
  readonly endTokens: readonly number[];
  /**
   * Only for a tokenizer that consists of a vocab.txt: true if texts are converted to lower case. Default:
   * the value in tokenizer_config.json.
   */
  readonly lowersCase?: boolean | undefined;
  /**
   * True if the model reads token types, which state if a token belongs to the first or to the second text.
   */
  readonly hasTokenTypes: boolean;
}

/** The names of BERT's special tokens. */
const tokensOfBert = {
  unk_token: '[UNK]',
  sep_token: '[SEP]',
  pad_token: '[PAD]',
  cls_token: '[CLS]',
  mask_token: '[MASK]',
} as const;

/** The contents of the two files that transformers.js reads. */
export type TransformersJsFiles = Readonly<Record<'tokenizer.json' | 'tokenizer_config.json', JsonObject>>;

/**
 * Returns a tokenizer's files in the form that transformers.js can read. It reads only tokenizer.json and
 * tokenizer_config.json. A chat template therefore becomes a part of tokenizer_config.json, and a vocab.txt
 * becomes a tokenizer.json. Special tokens without names get names. If the tokenizer has no padding token,
 * its last token is used for padding.
 *
 * @throws CheckpointError MTL_ONNX_TOKENIZER for a model without such a tokenizer
 */
export function transformersJsTokenizer(files: TokenizerFiles, model: TokenizedModel): TransformersJsFiles {
  const settings = readObject(files, 'tokenizer_config.json', refuse) ?? {};
  const lowersCase = model.lowersCase ?? settings.do_lower_case;
  const tokenizer =
    readObject(files, 'tokenizer.json', refuse) ??
    wordPieceJson(readText(files, 'vocab.txt', refuse), lowersCase === undefined || lowersCase === true);
  if (tokenizer === undefined) {
    throw refuse(
      'the model has no tokenizer.json',
      'a tokenizer that tokenizer.json describes',
      'train with another tokenizer than NullTokenizer, or save the tokenizer with AutoTokenizer.save_pretrained',
    );
  }
  const template = readTemplate(files, refuse);
  const tokens = Object.fromEntries(readVocabulary(tokenizer).map(([token, id]) => [id, token]));
  const named = new Set(Object.values(tokens));
  const ofBert = Object.entries(tokensOfBert).filter(([, token]) => named.has(token));
  const end = model.endTokens.map((id) => tokens[id]).find((token) => token !== undefined);
  const known: JsonObject = {
    ...Object.fromEntries(named.has(tokensOfBert.mask_token) ? ofBert : []),
    ...(end === undefined ? {} : { eos_token: end }),
    ...readObject(files, 'special_tokens_map.json', refuse),
  };
  const withTokens = { model_max_length: model.maxPositionEmbeddings, ...known, ...settings };
  const hasPadding = ['pad_token', 'eos_token'].some((name) => (withTokens as JsonObject)[name] != null);
  return {
    'tokenizer.json': tokenizer,
    'tokenizer_config.json': {
      ...withTokens,
      ...(hasPadding ? {} : { pad_token: tokens[Math.max(...Object.keys(tokens).map(Number))] }),
      // the maximum length is limited to the model's positions, in case the tokenizer was made for a model
      // with more positions
      model_max_length: Math.min(Number(withTokens.model_max_length), model.maxPositionEmbeddings),
      ...(template === undefined ? {} : { chat_template: template }),
      // transformers.js uses token types only if the tokenizer's class has this name
      ...(model.hasTokenTypes ? { tokenizer_class: 'BertTokenizer' } : {}),
    },
  };
}

/** Returns the tokens in a tokenizer.json, with their ids. */
function readVocabulary(tokenizer: JsonObject): readonly (readonly [string, number])[] {
  const { model, added_tokens: added } = tokenizer as {
    readonly model?: {
      readonly vocab?: Readonly<Record<string, number>> | readonly (readonly [string, number])[];
    };
    readonly added_tokens?: readonly { readonly content: string; readonly id: number }[];
  };
  const { vocab = {} } = model ?? {};
  const own = Array.isArray(vocab)
    ? vocab.map(([token], id): readonly [string, number] => [String(token), id])
    : Object.entries(vocab as Readonly<Record<string, number>>);
  return [...own, ...(added ?? []).map(({ content, id }): readonly [string, number] => [content, id])];
}

/** Returns the tokenizer.json that is equivalent to a BERT's vocab.txt, which has one token per line. */
function wordPieceJson(vocabulary: string | undefined, lowersCase: boolean): JsonObject | undefined {
  if (vocabulary === undefined) return undefined;
  const lines = vocabulary.split(/\r?\n/);
  const tokens = lines.at(-1) === '' ? lines.slice(0, -1) : lines;
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const special = Object.values(tokensOfBert).filter((token) => token in vocab);
  const describeToken = (id: string, type_id: number) => ({ SpecialToken: { id, type_id } });
  const [cls, sep] = [tokensOfBert.cls_token, tokensOfBert.sep_token];
  const first = [describeToken(cls, 0), { Sequence: { id: 'A', type_id: 0 } }, describeToken(sep, 0)];
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: special.map((content) => ({
      id: vocab[content],
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: {
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null,
      lowercase: lowersCase,
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: first,
      pair: [...first, { Sequence: { id: 'B', type_id: 1 } }, describeToken(sep, 1)],
      special_tokens: Object.fromEntries(
        [cls, sep].map((id) => [id, { id, ids: [vocab[id]], tokens: [id] }]),
      ),
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: tokensOfBert.unk_token,
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
      vocab,
    },
  };
}
