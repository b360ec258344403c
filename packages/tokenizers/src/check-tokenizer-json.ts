import { isJsonObject } from '@mtl/errors/files';
import { shown } from './components/component.js';
import { type Fail, makeFail } from './tokenizer-files.js';

// the largest accepted id; ids index arrays, and a wrong id must not create a huge array
const maximumId = 1 << 24;

const modelTypes = ['BPE', 'Unigram', 'WordLevel', 'WordPiece'] as const;
type ModelType = (typeof modelTypes)[number];

// the largest number of merges; an integer with 53 bits stores the rank of a merge and a position in a word
const maximumMerges = 1 << 21;

/** A tokenizer.json whose fields have been checked, as far as they are used. */
export interface TokenizerJson {
  readonly model: {
    readonly type: ModelType;
    readonly vocab: Readonly<Record<string, number>> | readonly (readonly [string, number])[];
    readonly merges?: readonly (string | readonly [string, string])[];
    readonly unk_token?: string | null;
    /** The index of Unigram's unknown token in the vocabulary. */
    readonly unk_id?: number | null;
    readonly continuing_subword_prefix?: string | null;
    readonly end_of_word_suffix?: string | null;
    readonly max_input_chars_per_word?: number;
    /**
     * True if neighbouring unknown characters in a word become one token. In Unigram, this is always the
     * case.
     */
    readonly fuse_unk?: boolean | null;
    /** True if an unknown character is replaced by tokens for its bytes. */
    readonly byte_fallback?: boolean | null;
    /** True if a word that is a token is used as it is, without merges. */
    readonly ignore_merges?: boolean | null;
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

/**
 * Checks the structure of a parsed tokenizer.json. Throws `MTL_DATA_TOKENIZER` with the problem. Merges are
 * checked later, by `readMerges`.
 *
 * @returns the checked JSON, and the ids of its model's tokens. If a Unigram model contains a token several
 *   times, the last id counts
 */
export function checkTokenizerJson(
  json: unknown,
  path: string,
): { readonly json: TokenizerJson; readonly modelIds: ReadonlyMap<string, number> } {
  const fail: Fail = makeFail(path);
  if (!isJsonObject(json)) return fail('is not a tokenizer', 'a JSON object');
  const { model } = json;
  if (!isJsonObject(model)) return fail('has no model', 'a "model" object with a vocabulary');
  // old files omit the type, so it is derived from the model's fields
  const type = modelTypes.find((known) => known === (model.type ?? untypedModel(model)));
  if (type === undefined)
    return fail(`has a model of type ${JSON.stringify(model.type)}`, modelTypes.join(', '));
  const modelIds = type === 'Unigram' ? checkUnigram(model, fail) : checkVocabulary({ ...model, type }, fail);
  if (type === 'BPE') checkMergeList(model, fail);
  const addedTokens = json.added_tokens ?? [];
  if (!Array.isArray(addedTokens)) return fail(`has "added_tokens" that are ${shown(addedTokens)}`, 'a list');
  for (const [i, token] of addedTokens.entries()) {
    if (
      !isJsonObject(token) ||
      !isId(token.id) ||
      typeof token.content !== 'string' ||
      token.content === ''
    ) {
      fail(`has a malformed added token (number ${i})`, `an id below ${maximumId} and a text`);
    }
    for (const flag of ['special', 'single_word', 'lstrip', 'rstrip', 'normalized']) {
      const value = token[flag];
      if (value !== undefined && typeof value !== 'boolean')
        fail(`has the added token ${shown(token.content)} with ${flag}: ${shown(value)}`, 'true or false');
    }
  }
  const checked = {
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    ...json,
    model: { ...model, type } as unknown as TokenizerJson['model'],
    added_tokens: addedTokens as unknown as TokenizerJson['added_tokens'],
  };
  return { json: checked, modelIds };
}

/** Returns the type of a model whose file omits the type. */
function untypedModel(model: Record<string, unknown>): ModelType {
  if (Array.isArray(model.merges)) return 'BPE';
  if (Array.isArray(model.vocab)) return 'Unigram';
  const isWordPiece =
    model.continuing_subword_prefix !== undefined || model.max_input_chars_per_word !== undefined;
  return isWordPiece ? 'WordPiece' : 'WordLevel';
}

function checkVocabulary(model: Record<string, unknown>, fail: Fail): Map<string, number> {
  const { vocab } = model;
  if (!isJsonObject(vocab)) return fail('has no vocabulary', 'an object from tokens to ids');
  const ids = new Map<string, number>();
  const seen = new Set<number>();
  // for...in is safe, because an object parsed from JSON inherits no enumerable keys
  for (const token in vocab) {
    const id = vocab[token];
    if (!isId(id))
      return fail(
        `gives the token ${JSON.stringify(token)} the id ${JSON.stringify(id)}`,
        `0 to ${maximumId - 1}`,
      );
    if (seen.has(id)) fail(`gives the token ${JSON.stringify(token)} the id ${id} of another token`);
    seen.add(id);
    ids.set(token, id);
  }
  if (ids.size === 0) fail('has an empty vocabulary');
  for (const key of ['unk_token', 'continuing_subword_prefix', 'end_of_word_suffix']) {
    const value = model[key] ?? null;
    if (value !== null && typeof value !== 'string')
      fail(`has the model.${key} ${shown(value)}`, 'a text or null');
  }
  if (model.type === 'BPE') {
    for (const key of ['fuse_unk', 'byte_fallback', 'ignore_merges']) {
      const value = model[key] ?? null;
      if (value !== null && typeof value !== 'boolean')
        fail(`has the model.${key} ${shown(value)}`, 'true, false or null');
    }
    if ((model.dropout ?? 0) !== 0)
      fail(`has the model.dropout ${shown(model.dropout)}`, 'null or 0: ids must not depend on chance');
    return ids;
  }
  const unknown = model.unk_token;
  if (typeof unknown !== 'string' || !ids.has(unknown)) {
    fail(`has the unknown token ${JSON.stringify(unknown)}, which is not in its vocabulary`);
  }
  if (model.type === 'WordPiece') {
    const longest = model.max_input_chars_per_word ?? 100;
    if (!isId(longest))
      fail(`has the model.max_input_chars_per_word ${shown(longest)}`, 'a non-negative integer');
  }
  return ids;
}

function checkMergeList({ merges }: Record<string, unknown>, fail: Fail): void {
  if (!Array.isArray(merges)) fail('has no merges', 'a list of pairs');
  else if (merges.length > maximumMerges) fail(`has ${merges.length} merges`, `at most ${maximumMerges}`);
}

function checkUnigram(model: Record<string, unknown>, fail: Fail): Map<string, number> {
  const { vocab, unk_id: unknown, byte_fallback: fallsBack = false } = model;
  if (typeof fallsBack !== 'boolean')
    fail(`has the model.byte_fallback ${shown(fallsBack)}`, 'true or false');
  if (!Array.isArray(vocab) || vocab.length === 0 || vocab.length > maximumId)
    return fail('has no vocabulary', 'a list of pairs');
  const ids = new Map<string, number>();
  for (const [i, entry] of (vocab as unknown[]).entries()) {
    if (!Array.isArray(entry) || typeof entry[0] !== 'string' || typeof entry[1] !== 'number') {
      return fail(`has a malformed vocabulary entry (number ${i})`, 'a token and its score');
    }
    ids.set(entry[0], i);
  }
  if (
    unknown !== undefined &&
    unknown !== null &&
    !(isId(unknown) && unknown < (vocab as unknown[]).length)
  ) {
    fail(`has the unknown token ${JSON.stringify(unknown)}, which is not in its vocabulary`);
  }
  return ids;
}
