import { isJsonObject } from '../python/json.js';
import { splitBehaviors } from './text-pattern.js';
import { tokenizerError } from './tokenizer-files.js';

// Ids index arrays: a wild one must not make an array of that length.
const maximumId = 1 << 24;

/** A tokenizer.json whose parts that we rely on were checked. */
export interface TokenizerJson {
  readonly model: {
    readonly type: 'BPE' | 'WordPiece' | 'Unigram';
    readonly vocab: Readonly<Record<string, number>> | readonly (readonly [string, number])[];
    readonly merges?: readonly (string | readonly [string, string])[];
    readonly unk_token?: string | null;
    /** Index of the unknown token of Unigram. */
    readonly unk_id?: number | null;
    readonly continuing_subword_prefix?: string | null;
    /** True if unknown tokens of neighbouring words become one. */
    readonly fuse_unk?: boolean;
  };
  readonly added_tokens: readonly {
    readonly id: number;
    readonly content: string;
    readonly special?: boolean;
    readonly single_word?: boolean;
    readonly lstrip?: boolean;
    readonly rstrip?: boolean;
    readonly normalized?: boolean;
  }[];
  readonly [key: string]: unknown;
}

const isId = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < maximumId;

/** Checks the structure of a parsed tokenizer.json; throws `MTL_DATA_TOKENIZER` naming what is wrong. */
export function checkTokenizerJson(json: unknown, path: string): TokenizerJson {
  const fail = (what: string, expected?: string): never => {
    throw tokenizerError(path, what, expected === undefined ? {} : { expected });
  };
  if (!isJsonObject(json)) return fail('is not a tokenizer', 'a JSON object');
  const { model } = json;
  if (!isJsonObject(model)) return fail('has no model', 'a "model" object with a vocabulary');
  // Old files leave the type out; the parts tell.
  const type =
    model.type ??
    (Array.isArray(model.merges) ? 'BPE' : Array.isArray(model.vocab) ? 'Unigram' : 'WordPiece');
  if (type !== 'BPE' && type !== 'WordPiece' && type !== 'Unigram') {
    return fail(`has a model of type ${JSON.stringify(type)}`, 'BPE, WordPiece or Unigram');
  }
  if (type === 'Unigram') checkUnigram(model, fail);
  else checkVocabulary(model, fail);
  if (type === 'BPE') checkMerges(model, fail);
  const addedTokens = json.added_tokens ?? [];
  if (!Array.isArray(addedTokens)) return fail('has "added_tokens" that are not a list');
  for (const [i, token] of addedTokens.entries()) {
    if (
      !isJsonObject(token) ||
      !isId(token.id) ||
      typeof token.content !== 'string' ||
      token.content === ''
    ) {
      fail(`has a malformed added token (number ${i})`, `an id below ${maximumId} and a text`);
    }
  }
  for (const part of ['normalizer', 'pre_tokenizer', 'post_processor', 'decoder']) {
    const value = json[part] ?? null;
    if (value !== null && !(isJsonObject(value) && typeof value.type === 'string')) {
      fail(`has a malformed ${part}`, 'null or an object with a type');
    }
    checkPatterns(value, fail);
  }
  return {
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    ...json,
    model: { ...model, type } as unknown as TokenizerJson['model'],
    added_tokens: addedTokens as unknown as TokenizerJson['added_tokens'],
  };
}

/** Patterns of Split and Replace and behaviors of Split and Punctuation, however deep. */
function checkPatterns(part: unknown, fail: Fail): void {
  if (typeof part !== 'object' || part === null) return;
  const { type, pattern, behavior } = part as Record<string, unknown>;
  const isBehavior = splitBehaviors.some((known) => known === behavior);
  if ((type === 'Split' || type === 'Punctuation') && behavior !== undefined && !isBehavior) {
    fail(`has a ${type} with the behavior ${JSON.stringify(behavior)}`, splitBehaviors.join(', '));
  }
  const { length } = part as Record<string, unknown>;
  if (type === 'FixedLength' && length !== undefined && !(isId(length) && length > 0)) {
    fail(`has a FixedLength with the length ${JSON.stringify(length)}`, 'a positive integer');
  }
  if (type === 'Split' || type === 'Replace') {
    const { String: text, Regex: expression } = (isJsonObject(pattern) ? pattern : {}) as Record<
      string,
      unknown
    >;
    if (typeof text !== 'string' && typeof expression !== 'string') {
      fail(
        `has a ${type} with the pattern ${JSON.stringify(pattern)}`,
        '{"String": "..."} or {"Regex": "..."}',
      );
    }
  }
  for (const child of Object.values(part)) checkPatterns(child, fail);
}

type Fail = (what: string, expected?: string) => never;

function checkVocabulary(model: Record<string, unknown>, fail: Fail): void {
  if (!isJsonObject(model.vocab)) fail('has no vocabulary', 'an object from tokens to ids');
  const seen = new Set<number>();
  for (const [token, id] of Object.entries(model.vocab as Record<string, unknown>)) {
    if (!isId(id))
      fail(`gives the token ${JSON.stringify(token)} the id ${JSON.stringify(id)}`, `0 to ${maximumId - 1}`);
    if (seen.has(id as number))
      fail(`gives the id ${id} to two tokens, one of them ${JSON.stringify(token)}`);
    seen.add(id as number);
  }
  if (seen.size === 0) fail('has an empty vocabulary');
  for (const key of ['unk_token', 'continuing_subword_prefix', 'end_of_word_suffix']) {
    const value = model[key] ?? null;
    if (value !== null && typeof value !== 'string') fail(`has a malformed ${key}`, 'a text or null');
  }
  if (model.type === 'WordPiece') {
    const unknown = model.unk_token;
    if (typeof unknown !== 'string' || !Object.hasOwn(model.vocab as object, unknown)) {
      fail(`has the unknown token ${JSON.stringify(unknown)}, which is not in its vocabulary`);
    }
    const longest = model.max_input_chars_per_word ?? 100;
    if (!isId(longest)) fail('has a malformed max_input_chars_per_word', 'a non-negative integer');
  }
}

function checkMerges(model: Record<string, unknown>, fail: Fail): void {
  const vocabulary = model.vocab as Record<string, unknown>;
  const prefix = typeof model.continuing_subword_prefix === 'string' ? model.continuing_subword_prefix : '';
  if (!Array.isArray(model.merges)) fail('has no merges', 'a list of pairs');
  for (const [i, merge] of (model.merges as unknown[]).entries()) {
    const parts: unknown = typeof merge === 'string' ? merge.split(' ') : merge;
    if (!Array.isArray(parts) || parts.length !== 2 || !parts.every((part) => typeof part === 'string')) {
      fail(`has a malformed merge (number ${i}): ${JSON.stringify(merge)}`, 'a pair of tokens');
    }
    const [left, right] = parts as [string, string];
    const tail = prefix !== '' && right.startsWith(prefix) ? right.slice(prefix.length) : right;
    const missing = [left, right, left + tail].find((token) => !Object.hasOwn(vocabulary, token));
    if (missing !== undefined)
      fail(`merge number ${i} needs the token ${JSON.stringify(missing)}, which has no id`);
  }
}

function checkUnigram(model: Record<string, unknown>, fail: Fail): void {
  const { vocab, unk_id: unknown } = model;
  if (!Array.isArray(vocab) || vocab.length === 0 || vocab.length > maximumId)
    fail('has no vocabulary', 'a list of pairs');
  for (const [i, entry] of (vocab as unknown[]).entries()) {
    if (!Array.isArray(entry) || typeof entry[0] !== 'string' || typeof entry[1] !== 'number') {
      fail(`has a malformed vocabulary entry (number ${i})`, 'a token and its score');
    }
  }
  if (
    unknown !== undefined &&
    unknown !== null &&
    !(isId(unknown) && unknown < (vocab as unknown[]).length)
  ) {
    fail(`has the unknown token ${JSON.stringify(unknown)}, which is not in its vocabulary`);
  }
}
