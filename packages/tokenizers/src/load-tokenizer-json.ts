import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DataError } from '@mtl/errors';
import { tokensById } from './added-vocabulary.js';
import { checkTokenizerJson, type TokenizerJson } from './check-tokenizer-json.js';
import { readComponent } from './components/component.js';
import { makeDecoder } from './components/decoders.js';
import { makeModel } from './components/models.js';
import { makeNormalizer } from './components/normalizers.js';
import { listStartIds } from './components/post-processors.js';
import { makePreTokenizer, refuseUnknownFront } from './components/pre-tokenizers.js';
import { readSavedFiles, type SavedFiles, withSavedTokens } from './saved-tokens.js';
import type { Tokenizer, TokenizerOptions } from './tokenizer.js';
import { makeFail, readJsonFile, tokenizerError } from './tokenizer-files.js';
import { isNormalized, tokenizerJsonEncoder } from './tokenizer-json-encoder.js';
import { wordPieceOffsets } from './word-piece.js';

// the names that published models give to the token that ends a document, the most specific first
const endOfDocumentNames = ['<|endoftext|>', '<|end_of_text|>', '</s>', '<eos>', '[EOS]', '[SEP]'];
const padNames = ['<|pad|>', '<pad>', '[PAD]'];

/** A parsed tokenizer.json, with the options for making a tokenizer from it. */
interface HuggingFaceTokenizerOptions {
  readonly name: string;
  /** Path of the file, for messages. */
  readonly path: string;
  readonly json: unknown;
  /** The further files in the same directory; absent if there are none. */
  readonly files?: SavedFiles;
  readonly eodToken?: string | undefined;
  readonly options: TokenizerOptions | undefined;
}

/**
 * Loads a `tokenizer.json` (or a directory that contains one) and the files in its directory, in the same way
 * as AutoTokenizer of the transformers library.
 */
export function loadHuggingFaceTokenizer(
  options: Extract<TokenizerOptions, { type: 'HuggingFaceTokenizer' }>,
): Tokenizer {
  const { tokenizerModel, eodToken } = options;
  const { path } = tokenizerJsonPaths(tokenizerModel);
  return makeHuggingFaceTokenizer({
    name: 'HuggingFaceTokenizer',
    path,
    json: readJsonFile(path),
    files: readSavedFiles(path),
    eodToken,
    options,
  });
}

/**
 * Returns the path of a tokenizer.json, given its path or its directory. Also returns the path of the
 * tokenizer_config.json in the same directory, which may not exist.
 */
export function tokenizerJsonPaths(tokenizerModel: string): {
  readonly path: string;
  readonly configPath: string;
} {
  const isDirectory = existsSync(tokenizerModel) && statSync(tokenizerModel).isDirectory();
  const path = isDirectory ? join(tokenizerModel, 'tokenizer.json') : tokenizerModel;
  return { path, configPath: join(dirname(path), 'tokenizer_config.json') };
}

/** Makes a tokenizer from a parsed tokenizer.json. Throws `MTL_DATA_TOKENIZER` if it is unusable. */
export function makeHuggingFaceTokenizer(options: HuggingFaceTokenizerOptions): Tokenizer {
  const { name, path } = options;
  const { json: checked, modelIds } = guarded(path, () => checkTokenizerJson(options.json, path));
  const modelTokens = tokensById(modelIds);
  const { json, specialTokens } = guarded(path, () =>
    withSavedTokens(checked, { path, files: options.files, modelIds, modelTokens }),
  );
  const ids = withAddedTokens(modelIds, json.added_tokens);
  const parts = guarded(path, () => makeParts(json, { file: path, modelIds, modelTokens }));
  const { encodeText, decodeIds } = parts;
  const eod = endOfDocument({ ids, eosToken: specialTokens.eos_token, path, eodToken: options.eodToken });
  const padToken = specialTokens.pad_token ?? padNames.find((candidate) => ids.has(candidate));
  return {
    name,
    vocabularySize: largest(ids.values()) + 1,
    eod,
    padId: padToken === undefined ? undefined : ids.get(padToken),
    startIds: parts.startIds,
    tokenIds: ids,
    specialTokens,
    specialIds: new Set(json.added_tokens.filter(({ special }) => special === true).map(({ id }) => id)),
    identifiers: { class: `mtl.${name}`, tokenizer_path: path },
    options: options.options,
    encode: (text) =>
      checkIds(
        guarded(path, () => encodeText(text)),
        path,
      ),
    encodeWithOffsets: wordPieceOffsets(json, { modelIds, normalize: parts.normalize }),
    decode: (tokens) => guarded(path, () => decodeIds(Array.from(tokens, Number))),
  };
}

/** Returns the ids of the model's tokens and of the added tokens. */
function withAddedTokens(
  modelIds: ReadonlyMap<string, number>,
  added: TokenizerJson['added_tokens'],
): ReadonlyMap<string, number> {
  // in most models the vocabulary already contains the added tokens
  if (added.every(({ content, id }) => modelIds.get(content) === id)) return modelIds;
  const ids = new Map(modelIds);
  for (const { content, id } of added) ids.set(content, id);
  return ids;
}

/** Makes the components of a checked tokenizer.json, and checks their fields. */
function makeParts(
  json: TokenizerJson,
  {
    file,
    modelIds,
    modelTokens,
  }: {
    readonly file: string;
    readonly modelIds: ReadonlyMap<string, number>;
    readonly modelTokens: readonly string[];
  },
) {
  const part = (field: string) => readComponent(json, field, file);
  const [normalizerPart, preTokenizerPart, decoderPart] = ['normalizer', 'pre_tokenizer', 'decoder'].map(
    part,
  );
  const normalizer = normalizerPart && makeNormalizer(normalizerPart);
  const preTokenizer = preTokenizerPart && makePreTokenizer(preTokenizerPart);
  refuseUnknownFront(normalizerPart, preTokenizerPart);
  const decode = decoderPart && makeDecoder(decoderPart);
  const tokens = [...modelTokens];
  const normalize = (text: string) => normalizer?.normalize(text) ?? text;
  // as in the tokenizers library, a normalized added token is decoded to its normalized content
  for (const token of json.added_tokens) {
    const content = isNormalized(token) ? normalize(token.content) : token.content;
    if (content === '') {
      throw tokenizerError(
        file,
        `has the added token ${JSON.stringify(token.content)}, which the normalizer makes empty`,
        { expected: 'one with "normalized": false, or a normalizer that keeps it' },
      );
    }
    tokens[token.id] = content;
  }
  return {
    normalize,
    encodeText: tokenizerJsonEncoder({
      normalizer,
      preTokenizer,
      model: makeModel(json.model, modelIds, makeFail(file)),
      addedTokens: json.added_tokens,
    }),
    /** Decodes `ids`. Ids without a token are left out, as in the tokenizers library. */
    decodeIds: (ids: readonly number[]): string => {
      const found = ids.flatMap((id) => tokens[id] ?? []);
      if (found.length === 0) return '';
      return decode === undefined ? found.join(' ') : decode(found).join('');
    },
    startIds: listStartIds(part('post_processor')),
  };
}

/**
 * Rejects a text if a section of it has no id. This happens if a model has neither tokens for the section nor
 * an unknown token.
 */
function checkIds(encoded: (number | undefined)[], path: string): number[] {
  if (encoded.every((id) => Number.isInteger(id))) return encoded as number[];
  throw tokenizerError(path, 'has no token for a part of the text, and no unknown token', {
    remedy: 'use a tokenizer with an unknown token or with bytes as its smallest tokens',
  });
}

// Math.max(...values) would overflow the stack for a large vocabulary
function largest(values: Iterable<number>): number {
  let maximum = -1;
  for (const value of values) if (value > maximum) maximum = value;
  return maximum;
}

function endOfDocument(options: {
  ids: ReadonlyMap<string, number>;
  eosToken: string | undefined;
  path: string;
  eodToken: string | undefined;
}): number {
  const { ids, eosToken, path, eodToken } = options;
  const name = eodToken ?? eosToken ?? endOfDocumentNames.find((candidate) => ids.has(candidate));
  const id = name === undefined ? undefined : ids.get(name);
  if (id !== undefined) return id;
  const what =
    name === undefined ? 'does not say which token ends a document' : `has no token ${JSON.stringify(name)}`;
  throw tokenizerError(path, what, {
    expected: `an eos_token in tokenizer_config.json, or one of ${endOfDocumentNames.join(' ')}`,
    remedy: 'name the end-of-document token (eodToken)',
  });
}

/** Calls `run`, and converts any error to a coded error about the file at `path`. */
function guarded<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw tokenizerError(path, `does not work: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}
