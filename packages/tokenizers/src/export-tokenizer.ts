import { existsSync } from 'node:fs';
import { BytePairEncoder } from './byte-pair-encoder.js';
import { checkTokenizerJson } from './check-tokenizer-json.js';
import {
  type ByteLevelBpe,
  byteAlphabet,
  byteLevelBpeJson,
  endOfText,
  loadGpt2Vocabulary,
  readGpt2Files,
} from './gpt2-vocabulary.js';
import { loadHuggingFaceTokenizer, tokenizerJsonPaths } from './load-tokenizer-json.js';
import { readSavedFiles } from './saved-tokens.js';
import type { TokenizerOptions } from './tokenizer.js';
import { findTokenizerClass } from './tokenizer-classes.js';
import { readJsonFile } from './tokenizer-files.js';

/**
 * Returns the contents, by file name, of files from which Hugging Face's libraries can load the same
 * tokenizer. Files that the tokenizer already has are not included. `GPT2BPETokenizer` becomes
 * tokenizer.json, vocab.json, merges.txt and tokenizer_config.json; `ByteLevelTokenizer` becomes
 * tokenizer.json and tokenizer_config.json. A `HuggingFaceTokenizer` without a tokenizer_config.json gets
 * one, because otherwise the transformers library knows neither special tokens nor a maximum length. Returns
 * undefined for all other tokenizers. Unlike our tokenizers, these libraries encode the string
 * `<|endoftext|>` as the special token.
 *
 * `maxLength`: the model's maximum number of tokens, written as `model_max_length`. Default: not written
 *
 * @throws DataError MTL_DATA_TOKENIZER if the tokenizer's files cannot be used
 */
export async function exportTokenizer(
  options: TokenizerOptions,
  { maxLength }: { readonly maxLength?: number | undefined } = {},
): Promise<Readonly<Record<string, string>> | undefined> {
  if (options.type === 'ByteLevelTokenizer') {
    const tokens = Array.from(byteAlphabet.keys(), (byte) => String.fromCharCode(byte));
    const parts = bytePairs(tokens, { splitsWords: false });
    return jsonFiles(parts, { tokenizerClass: 'PreTrainedTokenizerFast', maxLength });
  }
  if (options.type === 'HuggingFaceTokenizer') return makeSettings(options, maxLength);
  if (options.type !== 'GPT2BPETokenizer') return undefined;
  const { vocabFile, mergeFile } = options;
  const parts =
    vocabFile === undefined || mergeFile === undefined
      ? bytePairs(await loadGpt2Vocabulary(), { splitsWords: true })
      : readGpt2Files({ vocabFile, mergeFile });
  return {
    ...jsonFiles(parts, { tokenizerClass: 'GPT2Tokenizer', maxLength }),
    'vocab.json': JSON.stringify(parts.vocab),
    'merges.txt': ['#version: 0.2', ...parts.merges, ''].join('\n'),
  };
}

interface Exported {
  readonly tokenizerClass: string;
  readonly maxLength: number | undefined;
  readonly addsPrefixSpace?: boolean;
}

function jsonFiles(parts: ByteLevelBpe, exported: Exported): Record<string, string> {
  const end = parts.endOfText?.content;
  return {
    'tokenizer.json': `${JSON.stringify(byteLevelBpeJson(parts))}\n`,
    'tokenizer_config.json': settingsFile({
      bos: end,
      eos: end,
      unk: end,
      addsPrefixSpace: false,
      ...exported,
    }),
  };
}

/** Returns the contents of a tokenizer_config.json. */
function settingsFile(
  settings: Exported & Readonly<Partial<Record<SpecialToken, string | undefined>>>,
): string {
  const tokens = specialTokens.map((name) => [`${name}_token`, settings[name]]);
  const fields = {
    tokenizer_class: settings.tokenizerClass,
    ...Object.fromEntries(tokens),
    model_max_length: settings.maxLength,
    // if undefined, the field is omitted and tokenizer.json decides
    add_prefix_space: settings.addsPrefixSpace,
    clean_up_tokenization_spaces: false,
  };
  return `${JSON.stringify(fields, null, 2)}\n`;
}

const specialTokens = ['bos', 'eos', 'unk', 'pad'] as const;
type SpecialToken = (typeof specialTokens)[number];

// the names that published models give to the token that begins a text
const bosNames = ['<|begin_of_text|>', '<|startoftext|>', '<s>', '<bos>', '[BOS]'];

/** Returns a tokenizer_config.json to add to a tokenizer.json that has none. */
function makeSettings(
  options: Extract<TokenizerOptions, { type: 'HuggingFaceTokenizer' }>,
  maxLength: number | undefined,
): Record<string, string> | undefined {
  const { path, configPath } = tokenizerJsonPaths(options.tokenizerModel);
  if (existsSync(configPath)) return undefined;
  const tokenizer = loadHuggingFaceTokenizer(options);
  const ids = tokenizer.tokenIds!;
  const tokens = new Map(Array.from(ids, ([token, id]) => [id, token]));
  const start = tokenizer.startIds?.[0];
  const { model } = checkTokenizerJson(readJsonFile(path), path).json;
  const unknown = Array.isArray(model.vocab) ? model.vocab[model.unk_id ?? -1]?.[0] : model.unk_token;
  // special_tokens_map.json remains in use, and must not contradict the new file
  const { bos_token, eos_token, unk_token, pad_token } = tokenizer.specialTokens ?? {};
  const found: Record<SpecialToken, string | null | undefined> = {
    bos: bos_token ?? (start === undefined ? bosNames.find((name) => ids.has(name)) : tokens.get(start)),
    eos: eos_token ?? tokens.get(tokenizer.eod),
    unk: unk_token ?? unknown,
    pad: pad_token ?? (tokenizer.padId === undefined ? undefined : tokens.get(tokenizer.padId)),
  };
  // omits tokens that are not in the vocabulary, because the `transformers` library would otherwise add them
  const known = Object.entries(found).filter(([, token]) => typeof token === 'string' && ids.has(token));
  const settings = { ...readSavedFiles(path), configPath };
  const tokenizerClass = findTokenizerClass(settings)?.name ?? 'PreTrainedTokenizerFast';
  return {
    'tokenizer_config.json': settingsFile({ ...Object.fromEntries(known), tokenizerClass, maxLength }),
  };
}

/**
 * Returns the vocabulary and the merges for `tokens`: byte strings, ordered by the ranks of their merges. The
 * end-of-text token is the last entry in the vocabulary.
 */
function bytePairs(tokens: readonly string[], { splitsWords }: { splitsWords: boolean }): ByteLevelBpe {
  const encoder = new BytePairEncoder(new Map(tokens.map((token, id) => [token, id])));
  const spelt = tokens.map((token) => Array.from(token, (byte) => byteAlphabet[byte.charCodeAt(0)]).join(''));
  const merges = tokens.flatMap((token, id) => {
    if (token.length === 1) return [];
    return [
      encoder
        .merge(token, id)
        .map((part) => spelt[part])
        .join(' '),
    ];
  });
  const end = { id: tokens.length, content: endOfText };
  const vocab = Object.fromEntries([...spelt, end.content].map((token, id) => [token, id]));
  return { vocab, merges, endOfText: end, splitsWords };
}
