import { isJsonObject } from '@mtl/errors/files';
import { bool, type Metadata, text, uint32 } from '../metadata.js';
import { type ListedToken, tokenKinds, tokenListMetadata } from './token-list.js';
import {
  type JsonObject,
  readObject,
  readText,
  type TokenizerFiles,
  tokenizerRefused,
} from './tokenizer-files.js';

/** A WordPiece vocabulary: its ids by token, and how texts are normalized before they are split. */
interface WordPiece {
  readonly idByToken: ReadonlyMap<string, number>;
  readonly lowersCase: boolean;
  readonly stripsAccents: boolean;
}

const remedy = 'write the model with --save-hf DIR, which takes any tokenizer';

const refused = (problem: string, expected: string) => tokenizerRefused(problem, expected, remedy);

/** BERT's special tokens, by llama.cpp's key. [CLS] has two keys because it also begins texts. */
const specialTokens: Readonly<Record<string, string>> = {
  cls: '[CLS]',
  bos: '[CLS]',
  // the misspelling is llama.cpp's
  seperator: '[SEP]',
  unknown: '[UNK]',
  padding: '[PAD]',
  mask: '[MASK]',
};

function ofJson(json: JsonObject): WordPiece {
  const { normalizer, pre_tokenizer: splitting } = json;
  const model = json.model as JsonObject;
  const { vocab, continuing_subword_prefix: prefix = '##', unk_token: unknown = '[UNK]' } = model;
  const kind = isJsonObject(splitting) ? splitting.type : splitting;
  const isBert =
    isJsonObject(vocab) &&
    prefix === '##' &&
    unknown === specialTokens.unknown &&
    kind === 'BertPreTokenizer' &&
    isJsonObject(normalizer) &&
    normalizer.type === 'BertNormalizer' &&
    normalizer.clean_text !== false &&
    normalizer.handle_chinese_chars !== false;
  if (!isBert) {
    throw refused(
      "llama.cpp has no WordPiece that differs from BERT's in its normalizer, its pre-tokenizer or its prefix",
      'BertNormalizer with clean_text and handle_chinese_chars, BertPreTokenizer, the prefix ## and [UNK]',
    );
  }
  const { lowercase, strip_accents: strips } = normalizer as JsonObject;
  const idByToken = new Map(Object.entries(vocab as Readonly<Record<string, number>>));
  for (const added of Array.isArray(json.added_tokens) ? json.added_tokens.filter(isJsonObject) : []) {
    idByToken.set(String(added.content), Number(added.id));
  }
  const lowersCase = lowercase !== false;
  // null means that accents are stripped exactly if texts are converted to lower case
  return { idByToken, lowersCase, stripsAccents: typeof strips === 'boolean' ? strips : lowersCase };
}

function ofVocabulary(contents: string, lowersCase: boolean | undefined): WordPiece {
  if (lowersCase === undefined) {
    throw refused(
      'a vocab.txt does not state whether its tokenizer tells capital letters apart',
      'do_lower_case in tokenizer_config.json, or a tokenizer.json',
    );
  }
  const tokens = contents.split(/\r?\n/);
  while (tokens.at(-1) === '') tokens.pop();
  return {
    idByToken: new Map(tokens.map((token, id) => [token, id])),
    lowersCase,
    stripsAccents: lowersCase,
  };
}

function readWordPiece(files: TokenizerFiles, lowersCase: boolean | undefined): WordPiece {
  const json = readObject(files, 'tokenizer.json');
  if (json !== undefined) {
    const kind = isJsonObject(json.model) ? String(json.model.type) : 'no type';
    if (kind === 'WordPiece') return ofJson(json);
    throw refused(`a BERT with a tokenizer of the type ${kind} is not written`, 'WordPiece');
  }
  const vocabulary = readText(files, 'vocab.txt');
  if (vocabulary === undefined) {
    throw refused(
      'the model has no tokenizer, and llama.cpp needs one',
      'a tokenizer.json or a vocab.txt with WordPiece',
    );
  }
  const { do_lower_case: stated } = readObject(files, 'tokenizer_config.json') ?? {};
  return ofVocabulary(vocabulary, lowersCase ?? (typeof stated === 'boolean' ? stated : undefined));
}

/**
 * Returns a token in llama.cpp's spelling, which marks the tokens that begin a word. BERT's vocabularies
 * instead mark the tokens that continue a word, with `##`.
 */
const listed = (token: string): string => (token.startsWith('##') ? token.slice(2) : `\u2581${token}`);

/**
 * Returns the metadata for BERT's WordPiece tokenizer.
 *
 * @param options.lowersCase for a vocab.txt: true if texts are converted to lower case. Default: the value in
 *   tokenizer_config.json
 * @throws CheckpointError MTL_GGUF_TOKENIZER for a tokenizer with a component that llama.cpp does not have;
 *   the message names the component
 */
export function wordPieceMetadata({
  files,
  vocabularySize,
  lowersCase,
}: {
  readonly files: TokenizerFiles;
  readonly vocabularySize: number;
  readonly lowersCase?: boolean | undefined;
}): { readonly metadata: Metadata; readonly notices: readonly string[] } {
  const found = readWordPiece(files, lowersCase);
  const special = new Set(Object.values(specialTokens));
  const ids = Object.entries(specialTokens).map(([key, token]) => {
    const id = found.idByToken.get(token);
    if (id === undefined) {
      throw refused(`the vocabulary has no ${token}, which llama.cpp needs`, [...special].join(', '));
    }
    return [`tokenizer.ggml.${key}_token_id`, uint32(id)] as const;
  });
  const byId = new Map<number, ListedToken>(
    Array.from(found.idByToken, ([token, id]) => [
      id,
      special.has(token)
        ? { text: token, kind: tokenKinds.control }
        : { text: listed(token), kind: tokenKinds.normal },
    ]),
  );
  return {
    metadata: {
      'tokenizer.ggml.model': text('bert'),
      'tokenizer.ggml.pre': text('default'),
      ...tokenListMetadata(byId, vocabularySize),
      ...Object.fromEntries(ids),
      'tokenizer.ggml.normalizer.lowercase': bool(found.lowersCase),
      'tokenizer.ggml.normalizer.strip_accents': bool(found.stripsAccents),
    },
    notices: ['llama.cpp splits words of more than 100 letters, where BERT takes [UNK]'],
  };
}
