import { dirname, join } from 'node:path';
import { isJsonObject } from '@mtl/errors/files';
import { AddedVocabulary } from './added-vocabulary.js';
import type { TokenizerJson } from './check-tokenizer-json.js';
import {
  addedToken,
  type NamedTokens,
  namedTokens,
  readContent,
  type StatedToken,
  specialTokenNames,
  TokenReader,
} from './saved-token-names.js';
import { findTokenizerClass, withPartsOfClass } from './tokenizer-classes.js';
import { settingsIn, tokenizerError } from './tokenizer-files.js';

type Settings = Readonly<Record<string, unknown>>;

/** The files in the directory of a tokenizer.json that affect the tokenizer's ids. */
export interface SavedFiles {
  /** The folder of the files. */
  readonly directory: string;
  /** The settings of tokenizer_config.json. */
  readonly config: Settings;
  /** The settings of special_tokens_map.json. */
  readonly specialTokensMap: Settings;
  /** The contents of added_tokens.json, which maps tokens to ids. */
  readonly addedTokens: Settings;
  /** The settings in config.json. Their `model_type` may determine the tokenizer's class. */
  readonly modelConfig: Settings;
}

const names = {
  config: 'tokenizer_config.json',
  specialTokensMap: 'special_tokens_map.json',
  addedTokens: 'added_tokens.json',
  modelConfig: 'config.json',
} as const;

const remedy =
  'load the directory with AutoTokenizer of the transformers library and save it again (save_pretrained), or correct the file';

/**
 * Reads the files in the directory of a tokenizer.json.
 *
 * @throws DataError MTL_DATA_TOKENIZER
 */
export function readSavedFiles(path: string): SavedFiles {
  const directory = dirname(path);
  return {
    directory,
    config: settingsIn(directory, names.config),
    specialTokensMap: settingsIn(directory, names.specialTokensMap),
    addedTokens: settingsIn(directory, names.addedTokens),
    modelConfig: settingsIn(directory, names.modelConfig),
  };
}

/** A tokenizer.json, completed with the tokens in the other files of its directory. */
export interface CompleteTokenizer {
  readonly json: TokenizerJson;
  /** The special tokens as strings, by their names `bos_token`, `eos_token` and so on. */
  readonly specialTokens: Readonly<Record<string, string>>;
}

/**
 * Completes a tokenizer.json by the tokens in the further files of its directory, in the same way as
 * AutoTokenizer in transformers 5. If the tokenizer's class builds its own components, these replace the
 * components in tokenizer.json. `modelIds` are the ids of the model's tokens, and `modelTokens` are the
 * tokens indexed by id.
 *
 * @throws DataError MTL_DATA_TOKENIZER if files contradict each other or the vocabulary, and for unknown
 *   settings that change ids
 */
export function withSavedTokens(
  json: TokenizerJson,
  {
    path,
    files,
    modelIds,
    modelTokens,
  }: {
    readonly path: string;
    readonly files: SavedFiles | undefined;
    readonly modelIds: ReadonlyMap<string, number>;
    readonly modelTokens: readonly string[];
  },
): CompleteTokenizer {
  const saved: SavedFiles = files ?? { ...emptyFiles, directory: dirname(path) };
  const settings = { ...saved, path, configPath: join(saved.directory, names.config) };
  refuseUnknown(settings);
  const stated = statedIds(json, settings);
  refuseContradictions(stated);
  refuseOtherNames(settings);
  const made = findTokenizerClass(settings);
  const { vocab } = json.model;
  const vocabulary = new AddedVocabulary(modelIds, {
    modelTokens,
    numEntries: Array.isArray(vocab) ? vocab.length : modelIds.size,
  });
  if (made === undefined) vocabulary.add(json.added_tokens.map((token) => addedToken(token)));
  const named = namedIn(settings, { ...readPadding(json), ...made?.tokens });
  const kept = keptTokens(json, { ...settings, named });
  vocabulary.add(tokensToAdd(vocabulary, { kept, named }));
  if (made?.addsAgain !== undefined) vocabulary.add(specialTokensAgain(made.addsAgain, { kept, named }));
  const added = vocabulary.inOrder();
  checkIds(vocabulary, { stated, added, path });
  const specialTokens = Object.fromEntries(
    [...named.tokens].map(([name, token]) => [name, readContent(token)]),
  );
  const unknownToken = specialTokens.unk_token;
  const complete = made === undefined ? json : withPartsOfClass(json, { ...settings, made, unknownToken });
  return { json: { ...complete, added_tokens: added }, specialTokens };
}

/**
 * Returns all tokens in the files next to a vocabulary, as strings. The files are read in the same way as the
 * files next to a tokenizer.json.
 *
 * @param path the path of the vocabulary
 * @throws DataError MTL_DATA_TOKENIZER
 */
export function tokensNextTo(path: string): ReadonlySet<string> {
  const saved = readSavedFiles(path);
  const configPath = join(saved.directory, names.config);
  const named = namedIn({ ...saved, configPath }, {});
  const kept = new TokenReader(saved.config, { path: configPath }).byId('added_tokens_decoder');
  const tokens = [...kept.map(([, token]) => token), ...named.tokens.values(), ...named.extra];
  return new Set([...Object.keys(saved.addedTokens), ...tokens.map(readContent)]);
}

/** Returns the special tokens in the files. For names that are missing in the files, `defaults` are used. */
function namedIn(
  files: SavedFiles & { readonly configPath: string },
  defaults: Readonly<Record<string, string | null>>,
): NamedTokens {
  const hasDecoder = files.config.added_tokens_decoder !== undefined;
  return namedTokens({
    ...files,
    specialTokensMap: hasDecoder ? undefined : files.specialTokensMap,
    mapPath: join(files.directory, names.specialTokensMap),
    defaults,
  });
}

const emptyFiles = { config: {}, specialTokensMap: {}, addedTokens: {}, modelConfig: {} };

interface FilesAt extends SavedFiles {
  /** The path of tokenizer.json. */
  readonly path: string;
  /** The path of tokenizer_config.json. */
  readonly configPath: string;
}

function refuseUnknown({ config, configPath }: FilesAt): void {
  if (config.split_special_tokens === true) {
    throw tokenizerError(configPath, 'has split_special_tokens: special tokens in a text are plain text', {
      expected: 'special tokens that are found in texts',
      remedy: `take split_special_tokens out of ${configPath}`,
    });
  }
  const versions = config.fast_tokenizer_files;
  const other = Array.isArray(versions) ? versions.find((name) => name !== 'tokenizer.json') : undefined;
  if (other === undefined) return;
  throw tokenizerError(configPath, `names ${JSON.stringify(other)} in place of tokenizer.json`, {
    expected: 'one tokenizer.json for all versions of the transformers library',
    remedy: `take fast_tokenizer_files out of ${configPath}, and keep the file that is right as tokenizer.json`,
  });
}

/** An id that a file assigns to a token. */
interface StatedId {
  readonly content: string;
  readonly id: number;
  readonly file: string;
}

function statedIds(json: TokenizerJson, files: FilesAt): readonly StatedId[] {
  const { path, configPath, directory, config, addedTokens } = files;
  const file = join(directory, names.addedTokens);
  const kept = new TokenReader(config, { path: configPath }).byId('added_tokens_decoder');
  return [
    ...json.added_tokens.map(({ content, id }) => ({ content, id, file: path })),
    ...kept.map(([id, token]) => ({ content: readContent(token), id, file: configPath })),
    ...Object.entries(addedTokens).map(([content, id]) => {
      if (typeof id === 'number' && Number.isSafeInteger(id) && id >= 0) return { content, id, file };
      throw tokenizerError(file, `gives the token ${JSON.stringify(content)} the id ${JSON.stringify(id)}`, {
        expected: 'whole numbers of 0 or more',
      });
    }),
  ];
}

function refuseContradictions(stated: readonly StatedId[]): void {
  const byContent = new Map<string, StatedId>();
  const byId = new Map<number, StatedId>();
  for (const one of stated) {
    const { content, id, file } = one;
    const [same, other] = [byContent.get(content), byId.get(id)];
    byContent.set(content, same ?? one);
    byId.set(id, other ?? one);
    const quoted = JSON.stringify(content);
    if (same !== undefined && same.id !== id) {
      throw tokenizerError(
        file,
        `gives the token ${quoted} the id ${id}, and ${same.file} the id ${same.id}`,
        {
          expected: 'one id for each token',
          remedy,
        },
      );
    }
    if (other !== undefined && other.content !== content) {
      const what = `gives the id ${id} to ${quoted}, and ${other.file} to ${JSON.stringify(other.content)}`;
      throw tokenizerError(file, what, { expected: 'one token for each id', remedy });
    }
  }
}

/** Rejects files that have different special tokens for the same name. */
function refuseOtherNames({ config, configPath, specialTokensMap, directory }: FilesAt): void {
  const mapPath = join(directory, names.specialTokensMap);
  const [inConfig, inMap] = [
    new TokenReader(config, { path: configPath }),
    new TokenReader(specialTokensMap, { path: mapPath }),
  ];
  for (const name of specialTokenNames) {
    const [one, other] = [inConfig.token(name), inMap.token(name)];
    if (one === undefined || other === undefined || readContent(one) === readContent(other)) continue;
    const [first, second] = [one, other].map((token) => JSON.stringify(readContent(token)));
    throw tokenizerError(mapPath, `has the ${name} ${second}, and ${configPath} has ${first}`, {
      expected: 'the same special tokens in both files',
      remedy: `correct the one that is wrong; the transformers library writes ${names.config} alone`,
    });
  }
}

/** Returns the padding token of tokenizer.json. */
function readPadding({ padding }: TokenizerJson): Readonly<Record<string, string>> {
  const token = isJsonObject(padding) ? padding.pad_token : undefined;
  return typeof token === 'string' ? { pad_token: token } : {};
}

/**
 * Returns the tokens to which files assign ids, sorted by id. They are in `added_tokens_decoder` or, in older
 * directories, in separate files.
 */
function keptTokens(
  json: TokenizerJson,
  { config, configPath, addedTokens, named }: FilesAt & { readonly named: NamedTokens },
): readonly StatedToken[] {
  if (config.added_tokens_decoder !== undefined) {
    const reader = new TokenReader(config, { path: configPath });
    return reader.byId('added_tokens_decoder').map(([, token]) => token);
  }
  const byId = new Map<number, StatedToken>();
  for (const [content, id] of Object.entries(addedTokens)) {
    byId.set(id as number, { content, special: named.specialTexts.has(content) });
  }
  for (const { id, ...token } of json.added_tokens) byId.set(id, token);
  return [...byId].sort(([a], [b]) => a - b).map(([, token]) => token);
}

function tokensToAdd(
  vocabulary: AddedVocabulary,
  { kept, named }: { readonly kept: readonly StatedToken[]; readonly named: NamedTokens },
) {
  const keptByContent = new Map(kept.map((token) => [readContent(token), token]));
  const isKnown = (token: StatedToken): boolean =>
    vocabulary.has(readContent(token)) || keptByContent.has(readContent(token));
  const stated = [...named.tokens.values(), ...named.extra].filter((token) => !isKnown(token));
  const namedTexts = new Set([...named.tokens.values()].map(readContent));
  return [...kept, ...stated].map((token) =>
    addedToken(token, { isNamed: namedTexts.has(readContent(token)) }),
  );
}

/**
 * Returns the special tokens that a class adds a second time. Their new properties then replace the earlier
 * properties.
 */
function specialTokensAgain(
  adds: 'texts' | 'tokens',
  { kept, named }: { readonly kept: readonly StatedToken[]; readonly named: NamedTokens },
) {
  const keptByContent = new Map(kept.map((token) => [readContent(token), token]));
  const tokens = [...named.tokens].map(([name, token]) =>
    specialTokenNames.some((known) => known === name)
      ? (keptByContent.get(readContent(token)) ?? token)
      : token,
  );
  return [...tokens, ...named.extra].map((token) =>
    addedToken(adds === 'texts' ? readContent(token) : token, { isNamed: true }),
  );
}

/**
 * Rejects files with ids that differ from the tokens' actual ids. The tokenizers library numbers added tokens
 * after the vocabulary, regardless of the ids in the files.
 */
function checkIds(
  vocabulary: AddedVocabulary,
  {
    stated,
    added,
    path,
  }: {
    readonly stated: readonly StatedId[];
    readonly added: TokenizerJson['added_tokens'];
    readonly path: string;
  },
): void {
  for (const { content, id, file } of stated) {
    const found = vocabulary.findId(content);
    const quoted = JSON.stringify(content);
    if (!vocabulary.has(content)) {
      throw tokenizerError(file, `has the added token ${quoted}, which ${names.config} leaves out`, {
        expected: `all added tokens in "added_tokens_decoder" of ${names.config}, or none`,
        remedy,
      });
    }
    if (found === id) continue;
    throw tokenizerError(
      file,
      `gives the added token ${quoted} the id ${id}, but the tokenizers library ${found}`,
      {
        expected:
          'the id of the vocabulary for a token of the vocabulary, and for others the ids behind it in order, without a gap',
        remedy,
      },
    );
  }
  for (const { content, id } of added) {
    const other = vocabulary.ofModel(id);
    if (other === undefined || other === content) continue;
    throw tokenizerError(
      path,
      `has ids with gaps: the added token ${JSON.stringify(content)} gets the id ${id} of ${JSON.stringify(other)}`,
      { expected: 'a vocabulary with the ids from 0 on', remedy },
    );
  }
}
