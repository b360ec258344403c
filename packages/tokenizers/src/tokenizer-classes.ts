import { isJsonObject } from '@mtl/errors/files';
import type { TokenizerJson } from './check-tokenizer-json.js';
import { byteLevel, byteLevelModel, endOfText } from './gpt2-vocabulary.js';
import { classesByModelType, typesWithWrongClass, unknownClasses } from './model-type-classes.js';
import { tokenizerError } from './tokenizer-files.js';

/** The settings in tokenizer_config.json and config.json that determine a tokenizer's class. */
interface ClassSettings {
  readonly config: Readonly<Record<string, unknown>>;
  readonly modelConfig: Readonly<Record<string, unknown>>;
  /** The path of tokenizer_config.json, for messages. */
  readonly configPath: string;
  /** The text of the token `unk_token`. */
  readonly unknownToken?: string | undefined;
}

/**
 * A class in the transformers library that uses only the vocabulary of tokenizer.json, and builds all further
 * components itself.
 */
export interface TokenizerClass {
  readonly name: string;
  /**
   * The default strings of `bos_token` and so on, for names that are missing in the files. null means that
   * the class has no default, and does not use the padding token in tokenizer.json.
   */
  readonly tokens: Readonly<Record<string, string | null>>;
  /**
   * How the class adds every special token a second time: as a string without properties (`texts`), or with
   * its properties (`tokens`). Absent if tokens are added only once.
   */
  readonly addsAgain?: 'texts' | 'tokens';
  readonly parts: (settings: ClassSettings) => ClassComponents;
}

/** The components that a class builds. */
interface ClassComponents {
  readonly normalizer: unknown;
  readonly pre_tokenizer: unknown;
  readonly decoder: unknown;
  /** Fields of the model in tokenizer.json. */
  readonly model: Readonly<Record<string, unknown>>;
  /**
   * Further pairs of normalizer and pre-tokenizer in tokenizer.json that have the same effect as the class's
   * pair.
   */
  readonly others?: readonly (readonly [unknown, unknown])[];
}

const robertaTokens = {
  bos_token: '<s>',
  eos_token: '</s>',
  sep_token: '</s>',
  cls_token: '<s>',
  unk_token: '<unk>',
  pad_token: '<pad>',
  mask_token: '<mask>',
};
const bertTokens = {
  unk_token: '[UNK]',
  sep_token: '[SEP]',
  pad_token: '[PAD]',
  cls_token: '[CLS]',
  mask_token: '[MASK]',
};

/** Returns a boolean setting, or the default if it is null or absent. */
function flag({ config, configPath }: ClassSettings, name: string, byDefault: boolean): boolean {
  const value = config[name] ?? byDefault;
  if (typeof value === 'boolean') return value;
  throw tokenizerError(configPath, `has a ${name} of ${JSON.stringify(value)}`, {
    expected: 'true or false',
  });
}

/** Returns the components of a byte-level BPE, which splits words with `splits`, or else as GPT-2 does. */
const byteLevelParts =
  (normalizer: unknown, splits: readonly unknown[] = [], splitsWords = true) =>
  (settings: ClassSettings): ClassComponents => {
    const spaced = flag(settings, 'add_prefix_space', false);
    const bytes = { ...byteLevel, add_prefix_space: spaced, use_regex: splitsWords };
    return {
      normalizer,
      pre_tokenizer: splits.length === 0 ? bytes : { type: 'Sequence', pretokenizers: [...splits, bytes] },
      decoder: byteLevel,
      model: byteLevelModel,
    };
  };

const splitAt = (expression: string) => [
  { type: 'Split', pattern: { Regex: expression }, behavior: 'Isolated', invert: false },
];
const qwenWords =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const qwenWordsWithMarks =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const space = '\u2581';
const spaces = { type: 'Replace', pattern: { String: ' ' }, content: space };
const sentencePieceModel = {
  type: 'BPE',
  dropout: null,
  unk_token: null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  fuse_unk: true,
  byte_fallback: true,
  ignore_merges: false,
};
const sentencePieceDecoder = ({ strips }: { readonly strips: boolean }) => ({
  type: 'Sequence',
  decoders: [
    { type: 'Replace', pattern: { String: space }, content: ' ' },
    { type: 'ByteFallback' },
    { type: 'Fuse' },
    ...(strips ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []),
  ],
});

/** Returns the model's unknown token: the token in the files, or else the class's default. */
const chooseUnknown = ({ unknownToken }: ClassSettings, byDefault: string): string =>
  unknownToken ?? byDefault;

function llamaParts(settings: ClassSettings): ClassComponents {
  const spaced = flag(settings, 'add_prefix_space', true);
  const scheme = flag(settings, 'legacy', false) ? 'always' : 'first';
  return {
    normalizer: null,
    pre_tokenizer: {
      type: 'Metaspace',
      replacement: space,
      prepend_scheme: spaced ? scheme : 'never',
      split: false,
    },
    decoder: sentencePieceDecoder({ strips: spaced }),
    model: sentencePieceModel,
    // earlier versions of the library wrote the same components in the following form
    others: [
      [{ type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: space }, spaces] }, null],
      [spaces, null],
    ],
  };
}

function gemmaParts(settings: ClassSettings): ClassComponents {
  return {
    normalizer: spaces,
    pre_tokenizer: {
      type: 'Split',
      pattern: { String: ' ' },
      behavior: 'MergedWithPrevious',
      invert: false,
    },
    decoder: sentencePieceDecoder({ strips: false }),
    model: { ...sentencePieceModel, unk_token: chooseUnknown(settings, '<unk>') },
    others: [[spaces, null]],
  };
}

function bertParts(settings: ClassSettings): ClassComponents {
  const { strip_accents: strips = null } = settings.config;
  return {
    normalizer: {
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: flag(settings, 'tokenize_chinese_chars', true),
      strip_accents: strips === null ? null : flag(settings, 'strip_accents', false),
      lowercase: flag(settings, 'do_lower_case', true),
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: chooseUnknown(settings, '[UNK]'),
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
    },
  };
}

const gpt2Tokens = { bos_token: endOfText, eos_token: endOfText, unk_token: endOfText, pad_token: null };
const qwenTokens = { eos_token: endOfText, unk_token: endOfText, pad_token: endOfText };
const llamaTokens = { bos_token: '<s>', eos_token: '</s>', unk_token: '<unk>' };

const classes: ReadonlyMap<string, Omit<TokenizerClass, 'name'>> = new Map(
  Object.entries({
    GPT2Tokenizer: { tokens: gpt2Tokens, parts: byteLevelParts(null) },
    CodeGenTokenizer: { tokens: gpt2Tokens, parts: byteLevelParts(null) },
    GPTNeoXTokenizer: {
      tokens: { ...gpt2Tokens, pad_token: '<|padding|>' },
      parts: byteLevelParts({ type: 'NFC' }),
    },
    ...Object.fromEntries(
      ['RobertaTokenizer', 'BartTokenizer', 'LEDTokenizer', 'MvpTokenizer'].map((name) => [
        name,
        { tokens: robertaTokens, parts: byteLevelParts(null) },
      ]),
    ),
    DebertaTokenizer: {
      tokens: { bos_token: '[CLS]', eos_token: '[SEP]', ...bertTokens },
      parts: byteLevelParts(null),
    },
    Qwen2Tokenizer: {
      tokens: qwenTokens,
      addsAgain: 'texts',
      parts: byteLevelParts({ type: 'NFC' }, splitAt(qwenWords), false),
    },
    Qwen3_5Tokenizer: {
      tokens: qwenTokens,
      parts: byteLevelParts({ type: 'NFC' }, splitAt(qwenWordsWithMarks), false),
    },
    LlamaTokenizer: { tokens: llamaTokens, parts: llamaParts },
    GemmaTokenizer: {
      tokens: {
        unk_token: '<unk>',
        bos_token: '<bos>',
        eos_token: '<eos>',
        pad_token: '<pad>',
        mask_token: '<mask>',
      },
      parts: gemmaParts,
    },
    CohereTokenizer: {
      tokens: {
        unk_token: '<UNK>',
        bos_token: '<BOS_TOKEN>',
        eos_token: '<|END_OF_TURN_TOKEN|>',
        pad_token: '<PAD>',
        cls_token: '<CLS>',
        sep_token: '<SEP>',
        mask_token: '<MASK_TOKEN>',
      },
      addsAgain: 'tokens',
      parts: byteLevelParts({ type: 'NFC' }, [{ type: 'Digits', individual_digits: true }]),
    },
    ...Object.fromEntries(
      [
        ...['BertTokenizer', 'DistilBertTokenizer', 'LxmertTokenizer'],
        ...['MobileBertTokenizer', 'SqueezeBertTokenizer'],
      ].map((name) => [name, { tokens: bertTokens, parts: bertParts }]),
    ),
  } satisfies Record<string, Omit<TokenizerClass, 'name'>>),
);

/**
 * Classes that use tokenizer.json unchanged. A class name that the transformers library does not know has the
 * same effect.
 */
const generalClasses: readonly string[] = [
  ...['TokenizersBackend', 'PythonBackend', 'PreTrainedTokenizer', 'MistralCommonBackend'],
];

const withoutFast = (name: string): string => name.replace(/Fast$/, '');

/**
 * Returns the class with which AutoTokenizer in transformers 5 loads a tokenizer; undefined if it uses the
 * components in tokenizer.json.
 *
 * @throws DataError MTL_DATA_TOKENIZER for a class that reads further files, or builds components that are
 * not
 *   supported here
 */
export function findTokenizerClass(settings: ClassSettings): TokenizerClass | undefined {
  const name = findClassName(settings);
  if (name === undefined) return undefined;
  if (unknownClasses.has(name)) throw refusedClass(settings, name);
  const found = classes.get(name);
  return found && { name, ...found };
}

function findClassName({ config, modelConfig, configPath }: ClassSettings): string | undefined {
  const named = readText(config.tokenizer_class) ?? readText(modelConfig.tokenizer_class);
  const type = readText(modelConfig.model_type);
  const registered = type === undefined ? undefined : classesByModelType.get(type);
  const isWrong = type !== undefined && typesWithWrongClass.has(type);
  const code = isWrong ? undefined : readCode(config.auto_map);
  const hasLocal = named !== undefined && isKnown(withoutFast(named));
  if (code !== undefined && registered === undefined && !hasLocal) {
    throw tokenizerError(configPath, `makes its tokenizer by code of its own, ${code} (auto_map)`, {
      expected: 'a class of the transformers library',
      remedy: `write "tokenizer_class": "PreTrainedTokenizerFast" into it and take "auto_map" out, if tokenizer.json is the same tokenizer`,
    });
  }
  if (named === undefined) return registered;
  const hub = withoutFast(named);
  if (code !== undefined || registered === undefined || registered === hub) return hub;
  if (generalClasses.includes(registered)) return undefined;
  return isWrong ? registered : hub;
}

const isKnown = (name: string): boolean =>
  classes.has(name) || unknownClasses.has(name) || generalClasses.includes(name);

const readText = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

/** Returns the name of the tokenizer code that `auto_map` names; undefined if it names none. */
function readCode(map: unknown): string | undefined {
  const code: unknown = isJsonObject(map) ? map.AutoTokenizer : map;
  if (code === undefined || code === null) return undefined;
  return Array.isArray(code) ? code.filter((one) => one !== null).join(', ') : String(code);
}

function refusedClass({ config, configPath }: ClassSettings, name: string) {
  const isNamed = withoutFast(String(config.tokenizer_class)) === name;
  return tokenizerError(
    configPath,
    `${isNamed ? 'has the tokenizer_class' : 'is loaded by the class'} ${name}, which does not take the components of tokenizer.json`,
    {
      expected: `PreTrainedTokenizerFast, or one of ${[...classes.keys()].join(', ')}`,
      remedy: `write "tokenizer_class": "PreTrainedTokenizerFast" into ${configPath}, if tokenizer.json is to be used as it is`,
    },
  );
}

/**
 * Returns `json`, a tokenizer.json, with the components that its tokenizer class builds.
 *
 * @throws DataError MTL_DATA_TOKENIZER if `json` has different components, which the class would ignore
 */
export function withPartsOfClass(
  json: TokenizerJson,
  of: ClassSettings & { readonly made: TokenizerClass; readonly path: string },
): TokenizerJson {
  const { made, path, configPath } = of;
  const { normalizer, pre_tokenizer, decoder, model, others = [] } = made.parts(of);
  const own = canonical([json.normalizer, json.pre_tokenizer]);
  const isOwn = [[normalizer, pre_tokenizer], ...others].some((pair) => canonical(pair) === own);
  const refuse = (what: string, expected: string): never => {
    throw tokenizerError(
      path,
      `${what}, which transformers 5 ignores: it loads the tokenizer as ${made.name}`,
      {
        expected,
        remedy:
          `write "tokenizer_class": "PreTrainedTokenizerFast" into ${configPath}, if tokenizer.json is right ` +
          '(next to a config.json whose model_type has a class of its own, move the tokenizer into a folder without it)',
      },
    );
  };
  if (!isOwn) {
    refuse(
      `has the normalizer ${nameComponent(json.normalizer)} and the pre_tokenizer ${nameComponent(json.pre_tokenizer)}`,
      `normalizer ${nameComponent(normalizer)}, pre_tokenizer ${nameComponent(pre_tokenizer)}`,
    );
  }
  for (const field of ['type', 'byte_fallback', 'ignore_merges', ...affixes]) {
    const [given, wanted] = [json.model[field as 'type'] || null, model[field] || null];
    if (given !== wanted)
      refuse(`has a model with ${field} ${JSON.stringify(given)}`, JSON.stringify(wanted));
  }
  const { unk_token: unknown } = model;
  if (model.type === 'WordPiece' && !Object.hasOwn(json.model.vocab, String(unknown))) {
    throw tokenizerError(
      configPath,
      `has the unk_token ${JSON.stringify(unknown)}, which has no id in ${path}`,
      {
        expected: 'a token of the vocabulary, which stands for text without a token',
      },
    );
  }
  return { ...json, normalizer, pre_tokenizer, decoder, model: { ...json.model, ...model } };
}

const affixes = ['continuing_subword_prefix', 'end_of_word_suffix'];

/** Fields of components that the class itself sets, or that do not affect ids. */
const setFields: readonly string[] = [
  ...['add_prefix_space', 'prepend_scheme', 'trim_offsets'],
  ...['lowercase', 'strip_accents', 'handle_chinese_chars', 'str_rep'],
];
const defaults: Readonly<Record<string, unknown>> = { use_regex: true, invert: false };

/**
 * Returns a canonical string for a component. Components that differ only in fields that the class sets have
 * the same string.
 */
function canonical(part: unknown): string {
  const ordered = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(ordered);
    if (!isJsonObject(value)) return value ?? null;
    const list = value.type === 'Sequence' ? (value.normalizers ?? value.pretokenizers) : undefined;
    if (Array.isArray(list) && list.length < 2) return ordered(list[0] ?? null);
    const fields = Object.entries(value).filter(
      ([name, one]) => !setFields.includes(name) && one !== defaults[name],
    );
    return fields.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, one]) => [name, ordered(one)]);
  };
  return JSON.stringify(ordered(part));
}

/** Returns the name of a component for messages. */
function nameComponent(part: unknown): string {
  if (!isJsonObject(part)) return 'null';
  const list = part.normalizers ?? part.pretokenizers;
  return Array.isArray(list) ? `[${list.map(nameComponent).join(', ')}]` : JSON.stringify(part);
}
