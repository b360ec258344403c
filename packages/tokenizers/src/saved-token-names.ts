import { isJsonObject } from '@mtl/errors/files';
import type { AddedToken } from './added-vocabulary.js';
import { tokenizerError } from './tokenizer-files.js';

type Settings = Readonly<Record<string, unknown>>;

/** A token in the files: a string, which means a special token, or an object with properties. */
export type StatedToken = string | StatedProperties;

/** A token with its properties. */
interface StatedProperties extends Partial<Omit<AddedToken, 'normalized' | 'content'>> {
  readonly content: string;
  /**
   * True if the token is searched for in the normalized text. Default: true for tokens that are not special.
   */
  readonly normalized?: boolean;
}

/** Returns `token` with defaults for missing properties. */
export function addedToken(token: StatedToken, { isNamed = false } = {}): AddedToken {
  const { content, ...given } = typeof token === 'string' ? { content: token, special: true } : token;
  const special = given.special === true || isNamed;
  return {
    content,
    special,
    normalized: given.normalized ?? !special,
    single_word: given.single_word ?? false,
    lstrip: given.lstrip ?? false,
    rstrip: given.rstrip ?? false,
  };
}

export const readContent = (token: StatedToken): string =>
  typeof token === 'string' ? token : token.content;

/** The names of special tokens, in the order in which they are added. */
export const specialTokenNames = [
  ...['bos_token', 'eos_token', 'unk_token', 'sep_token', 'pad_token', 'cls_token', 'mask_token'],
] as const;
const isNamed = (name: string): boolean => specialTokenNames.some((known) => known === name);

const former = 'additional_special_tokens';

/** The special tokens in tokenizer_config.json and special_tokens_map.json. */
export interface NamedTokens {
  /** Tokens by name: first `bos_token` and so on, then names that exist only in some models. */
  readonly tokens: ReadonlyMap<string, StatedToken>;
  /** Special tokens without names. */
  readonly extra: readonly StatedToken[];
  /**
   * The strings of special tokens. If added_tokens.json contains a token with such a string, this token is
   * special, too.
   */
  readonly specialTexts: ReadonlySet<string>;
}

/** The files that name special tokens. */
interface NamingFiles {
  readonly config: Settings;
  /**
   * The contents of special_tokens_map.json; undefined if tokenizer_config.json has an
   * `added_tokens_decoder`, because the transformers library then ignores the map.
   */
  readonly specialTokensMap: Settings | undefined;
  /** Default tokens for names that are missing in the files; null for a name without a default token. */
  readonly defaults: Readonly<Record<string, string | null>>;
  readonly configPath: string;
  readonly mapPath: string;
}

/**
 * Returns the special tokens in the files, in the same way as AutoTokenizer in transformers 5.
 * `additional_special_tokens` is the former name of `extra_special_tokens`, and is used if no file has the
 * new name. special_tokens_map.json overrides tokenizer_config.json.
 *
 * @throws DataError MTL_DATA_TOKENIZER for an invalid token
 */
export function namedTokens(files: NamingFiles): NamedTokens {
  const { config, specialTokensMap = {}, defaults, configPath, mapPath } = files;
  const inConfig = new TokenReader(config, { path: configPath });
  const inMap = new TokenReader(specialTokensMap, { path: mapPath, special: true });
  const usesFormer = inConfig.has(former) && isEmpty(config.extra_special_tokens);
  const listKey = usesFormer ? former : 'extra_special_tokens';
  const isDict = isJsonObject(config[listKey]);
  const stated = isDict ? [] : inConfig.list(listKey);
  const ofMap = inMap.list('extra_special_tokens').filter((token) => !includes(stated, token));
  const listed = [...stated, ...ofMap];
  // the former name is used only if no file has a list under the new name, not even an empty list
  const hasPresent =
    usesFormer ||
    (config.extra_special_tokens !== undefined && !isDict) ||
    Array.isArray(specialTokensMap.extra_special_tokens);
  const extra = hasPresent ? listed : (inMap.has(former) ? inMap : inConfig).list(former);
  const tokens = new Map<string, StatedToken>();
  for (const name of specialTokenNames) {
    const token = inMap.has(name)
      ? inMap.token(name)
      : inConfig.has(name)
        ? inConfig.token(name)
        : defaults[name];
    if (token !== null && token !== undefined) tokens.set(name, token);
  }
  for (const [name, token] of [
    ...inMap.othersNamed(),
    ...inConfig.othersNamed(),
    ...inConfig.dict('model_specific_special_tokens'),
    ...inConfig.dict(listKey),
    ...inMap.dict('extra_special_tokens'),
  ]) {
    tokens.set(name, token);
  }
  const isStated = (name: string): boolean => inMap.has(name) || inConfig.has(name);
  const special = [...tokens].filter(([name]) => isNamed(name) && isStated(name)).map(([, token]) => token);
  return { tokens, extra, specialTexts: new Set([...special, ...listed].map(readContent)) };
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  (Array.isArray(value) ? value.length === 0 : isJsonObject(value) && Object.keys(value).length === 0);

const includes = (tokens: readonly StatedToken[], sought: StatedToken): boolean =>
  tokens.some((token) => JSON.stringify(token) === JSON.stringify(sought));

/** Reads the tokens in a file. */
export class TokenReader {
  readonly #settings: Settings;
  readonly #path: string;
  readonly #special: boolean;

  /** @param of.special true if every token that is given as an object is special, regardless of its fields */
  constructor(settings: Settings, of: { readonly path: string; readonly special?: boolean }) {
    this.#settings = settings;
    this.#path = of.path;
    this.#special = of.special === true;
  }

  has(name: string): boolean {
    return this.#settings[name] !== undefined;
  }

  /** Returns the token with the given name; undefined if the file has none. */
  token(name: string): StatedToken | undefined {
    const value = this.#settings[name] ?? undefined;
    return value === undefined ? undefined : this.#read(value, name);
  }

  list(name: string): readonly StatedToken[] {
    const value = this.#settings[name] ?? [];
    if (isJsonObject(value)) return [];
    if (!Array.isArray(value)) throw this.#malformed(value, name);
    return value.map((token) => this.#read(token, name));
  }

  /** Returns the tokens in the object `name`, with their keys. */
  dict(name: string): readonly (readonly [string, StatedToken])[] {
    const value = this.#settings[name];
    if (!isJsonObject(value)) return [];
    return Object.entries(value).map(([key, token]) => [key, this.#read(token, `${name}.${key}`)]);
  }

  /** Returns the tokens whose names exist only in some models, such as `image_token`. */
  othersNamed(): readonly (readonly [string, StatedToken])[] {
    return Object.entries(this.#settings).flatMap(([name, value]) => {
      const isToken = typeof value === 'string' || isJsonObject(value);
      return name.endsWith('_token') && !isNamed(name) && isToken
        ? [[name, this.#read(value, name)] as const]
        : [];
    });
  }

  /** Returns the tokens in the object `name`, whose keys are ids. */
  byId(name: string): readonly (readonly [number, StatedToken])[] {
    const value = this.#settings[name] ?? {};
    if (!isJsonObject(value)) throw this.#malformed(value, name, 'an object from ids to tokens');
    const entries = Object.entries(value).map(([id, token]) => {
      if (!/^\d{1,9}$/.test(id) || !isJsonObject(token)) throw this.#malformed({ [id]: token }, name);
      return [Number(id), this.#read(token, `${name}.${id}`)] as const;
    });
    return entries.sort(([a], [b]) => a - b);
  }

  #read(value: unknown, name: string): StatedToken {
    if (typeof value === 'string' && value !== '') return value;
    if (!isJsonObject(value) || typeof value.content !== 'string' || value.content === '') {
      throw this.#malformed(value, name);
    }
    const flags = ['special', 'normalized', 'single_word', 'lstrip', 'rstrip'] as const;
    const given = flags.flatMap((flag) => {
      const one = value[flag] ?? undefined;
      if (one !== undefined && typeof one !== 'boolean') throw this.#malformed(value, name);
      return one === undefined ? [] : [[flag, one] as const];
    });
    const special = this.#special ? { special: true } : {};
    return { content: value.content, ...Object.fromEntries(given), ...special };
  }

  #malformed(
    value: unknown,
    name: string,
    expected = 'texts of tokens, or objects with "content" and true or false',
  ) {
    return tokenizerError(this.#path, `has a malformed ${name}: ${JSON.stringify(value)}`, { expected });
  }
}
