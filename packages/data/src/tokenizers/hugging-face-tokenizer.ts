import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Tokenizer as Implementation } from '@huggingface/tokenizers';
import { DataError } from '@mtl/errors';
import { isJsonObject } from '../python/json.js';
import { checkTokenizerJson, type TokenizerJson } from './check-tokenizer-json.js';
import {
  correctDecoder,
  correctModel,
  correctNormalizer,
  correctPreTokenizer,
} from './correct-tokenizer-json.js';
import { readSavedFiles, type SavedFiles, withSavedTokens } from './saved-tokens.js';
import type { Tokenizer, TokenizerOptions } from './tokenizer.js';
import { readJsonFile, tokenizerError } from './tokenizer-files.js';
import { tokenizerJsonEncoder } from './tokenizer-json-encoder.js';
import { wordPieceOffsets } from './word-piece.js';

// Names that published models give the token that ends a document, most specific first.
const endOfDocumentNames = ['<|endoftext|>', '<|end_of_text|>', '</s>', '<eos>', '[EOS]', '[SEP]'];
const padNames = ['<|pad|>', '<pad>', '[PAD]'];

/** A tokenizer around a parsed tokenizer.json. */
interface HuggingFaceTokenizerOptions {
  readonly name: string;
  /** For messages. */
  readonly path: string;
  readonly json: unknown;
  /** The files next to it; absent: none. */
  readonly files?: SavedFiles;
  readonly eodToken?: string | undefined;
  readonly options: TokenizerOptions | undefined;
}

/**
 * Loads a `tokenizer.json` (or a directory that holds one) with the files next to it, as AutoTokenizer of the
 * transformers library does.
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
 * Returns a tokenizer.json, given by its path or its directory, and where its tokenizer_config.json would be.
 */
export function tokenizerJsonPaths(tokenizerModel: string): {
  readonly path: string;
  readonly configPath: string;
} {
  const isDirectory = existsSync(tokenizerModel) && statSync(tokenizerModel).isDirectory();
  const path = isDirectory ? join(tokenizerModel, 'tokenizer.json') : tokenizerModel;
  return { path, configPath: join(dirname(path), 'tokenizer_config.json') };
}

/** Wraps a parsed tokenizer.json; throws `MTL_DATA_TOKENIZER` when it cannot work. */
export function makeHuggingFaceTokenizer(options: HuggingFaceTokenizerOptions): Tokenizer {
  const { name, path } = options;
  const { json, specialTokens } = guarded(path, () =>
    withSavedTokens(checkTokenizerJson(options.json, path), { path, files: options.files }),
  );
  const config = options.files?.config ?? {};
  const ids = tokenIds(json);
  const implementation = guarded(path, () => correctedImplementation(json, config));
  const encodeText = tokenizerJsonEncoder(json, implementation);
  const decodeIds = (tokens: number[]): string => {
    const asItIs = { clean_up_tokenization_spaces: false, skip_special_tokens: false };
    return tokens.length === 0 ? '' : implementation.decode(tokens, asItIs);
  };
  // Parts that the file names but that do not work show up at the first use: better here than in the middle.
  guarded(path, () => decodeIds(encodeText('probe 1').filter((id) => id !== undefined)));
  const eod = endOfDocument({ ids, eosToken: specialTokens.eos_token, path, eodToken: options.eodToken });
  const padToken = specialTokens.pad_token ?? padNames.find((candidate) => ids.has(candidate));
  return {
    name,
    vocabularySize: largest(ids.values()) + 1,
    eod,
    padId: padToken === undefined ? undefined : ids.get(padToken),
    startIds: startIdsOf(json.post_processor),
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
    encodeWithOffsets: wordPieceOffsets(json, (text) => implementation.normalizer?.normalize(text) ?? text),
    decode: (tokens) => guarded(path, () => decodeIds(Array.from(tokens, Number))),
  };
}

function correctedImplementation(
  json: TokenizerJson,
  config: Readonly<Record<string, unknown>>,
): Implementation {
  const implementation = new Implementation(withoutExpressions(json) as TokenizerJson, config);
  correctNormalizer(implementation.normalizer, json.normalizer);
  correctPreTokenizer(implementation.pre_tokenizer, json.pre_tokenizer);
  correctDecoder(implementation.decoder, json.decoder);
  correctModel(implementation.model, json.model);
  return implementation;
}

/**
 * Replaces the expressions of the corrected parts by others: the library cannot read every expression of
 * Oniguruma.
 */
function withoutExpressions(json: TokenizerJson): unknown {
  const strip = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(strip);
    if (!isJsonObject(part)) return part;
    const entries = Object.entries(part).map(([key, value]) => [key, strip(value)]);
    return { ...Object.fromEntries(entries), ...(part.pattern === undefined ? {} : { pattern: unread }) };
  };
  const [normalizer, preTokenizer, decoder] = [json.normalizer, json.pre_tokenizer, json.decoder].map(strip);
  return { ...json, normalizer, pre_tokenizer: preTokenizer, decoder };
}

const unread = { String: ' ' };

/** Refuses text without an id: a model without an unknown token gives none for text that it cannot spell. */
function checkIds(encoded: (number | undefined)[], path: string): number[] {
  if (encoded.every((id) => Number.isInteger(id))) return encoded as number[];
  throw tokenizerError(path, 'has no token for a part of the text, and no unknown token', {
    remedy: 'use a tokenizer with an unknown token or with bytes as its smallest tokens',
  });
}

function tokenIds(json: TokenizerJson): Map<string, number> {
  const { vocab } = json.model;
  const ids = Array.isArray(vocab)
    ? new Map(vocab.map(([token], id) => [token as string, id]))
    : new Map(Object.entries(vocab as Record<string, number>));
  for (const { content, id } of json.added_tokens) ids.set(content, id);
  return ids;
}

// Math.max(...values) would overflow the stack with a large vocabulary.
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

/** Runs library code; whatever it throws becomes our error. */
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

/** A post-processor of a tokenizer.json, as far as it is read; everything in it is checked. */
interface PostProcessor {
  readonly type?: unknown;
  readonly processors?: unknown;
  readonly single?: unknown;
  readonly special_tokens?: unknown;
}

/**
 * Returns the special tokens that a post-processor puts before a text: those of its template for single
 * texts.
 */
function startIdsOf(postProcessor: unknown): readonly number[] | undefined {
  const found = (postProcessor ?? {}) as PostProcessor;
  if (found.type === 'Sequence' && Array.isArray(found.processors)) {
    return found.processors.map(startIdsOf).find((ids) => ids !== undefined);
  }
  if (found.type !== 'TemplateProcessing' || !Array.isArray(found.single)) return undefined;
  const tokens = (found.special_tokens ?? {}) as Readonly<Record<string, { readonly ids?: unknown } | null>>;
  const ids: number[] = [];
  for (const piece of found.single as readonly ({
    readonly SpecialToken?: { readonly id?: unknown };
  } | null)[]) {
    if (piece?.SpecialToken === undefined) break;
    const own = tokens[String(piece.SpecialToken.id)]?.ids;
    if (Array.isArray(own)) ids.push(...own.filter((id): id is number => Number.isSafeInteger(id)));
  }
  return ids.length === 0 ? undefined : ids;
}
