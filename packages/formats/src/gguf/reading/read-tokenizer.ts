import { makePreTokenizer } from '../tokenizer/pre-tokenizers.js';
import { tokenKinds } from '../tokenizer/token-list.js';
import { ggufInvalid } from './gguf-file.js';
import type { MetadataFields } from './metadata-fields.js';

/** A tokenizer that has been converted to the files of the transformers library. */
interface ReadTokenizer {
  readonly files: Readonly<Record<string, string>>;
  readonly endTokens: readonly number[];
  readonly notices: readonly string[];
}

const none = (notice: string): ReadTokenizer => ({ files: {}, endTokens: [], notices: [notice] });

/** Returns the ids of special tokens, by their names in tokenizer_config.json. */
function specialIds(fields: MetadataFields, vocabularySize: number): ReadonlyMap<string, number> {
  const keys = { bos_token: 'bos', eos_token: 'eos', eot: 'eot', unk_token: 'unknown', pad_token: 'padding' };
  const found = new Map<string, number>();
  for (const [name, key] of Object.entries(keys)) {
    const id = fields.count(`tokenizer.ggml.${key}_token_id`);
    if (id === undefined) continue;
    if (id >= vocabularySize) throw ggufInvalid(fields.path, `tokenizer.ggml.${key}_token_id is ${id}`);
    found.set(name, id);
  }
  return found;
}

/** Returns the contents of tokenizer.json for a byte-level BPE tokenizer. */
function tokenizerJson(
  {
    tokens,
    types,
    merges,
  }: { tokens: readonly string[]; types: readonly number[]; merges: readonly string[] },
  splitting: { readonly preTokenizer: unknown; readonly ignoresMerges: boolean },
  around: unknown,
) {
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const isAdded = (id: number): boolean =>
    types[id] === tokenKinds.control ||
    types[id] === tokenKinds.userDefined ||
    types[id] === tokenKinds.unknown;
  const vocabulary = tokens.flatMap((token, id) =>
    types[id] === tokenKinds.unused ? [] : [[token, id] as const],
  );
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: vocabulary
      .filter(([, id]) => isAdded(id))
      .map(([content, id]) => ({ id, content, ...flags, special: types[id] !== tokenKinds.userDefined })),
    normalizer: null,
    pre_tokenizer: splitting.preTokenizer,
    post_processor: around,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: splitting.ignoresMerges,
      vocab: Object.fromEntries(vocabulary),
      merges,
    },
  };
}

/**
 * Returns a post-processor that adds the token `begin` before each text and the token `end` after it. Either
 * may be undefined; the result is null if both are undefined.
 */
function tokensAround(
  tokens: readonly string[],
  { begin, end }: { readonly begin: number | undefined; readonly end: number | undefined },
): unknown {
  if (begin === undefined && end === undefined) return null;
  const special = (id: number | undefined) =>
    id === undefined ? [] : [{ SpecialToken: { id: tokens[id]!, type_id: 0 } }];
  const own = [begin, end].filter((id) => id !== undefined);
  return {
    type: 'TemplateProcessing',
    single: [...special(begin), { Sequence: { id: 'A', type_id: 0 } }, ...special(end)],
    pair: [
      ...special(begin),
      { Sequence: { id: 'A', type_id: 0 } },
      ...special(begin),
      { Sequence: { id: 'B', type_id: 0 } },
      ...special(end),
    ],
    special_tokens: Object.fromEntries(
      own.map((id) => [tokens[id]!, { id: tokens[id]!, ids: [id], tokens: [tokens[id]!] }]),
    ),
  };
}

/**
 * Returns a file's tokenizer. Only a byte-level BPE with a known pre-tokenizer is supported. For an
 * unsupported tokenizer, the result contains no files, only a notice.
 *
 * @throws CheckpointError MTL_GGUF_INVALID for a list of the wrong length or an id beyond the vocabulary
 */
export function readTokenizer(fields: MetadataFields, vocabularySize: number): ReadTokenizer {
  const model = fields.text('tokenizer.ggml.model');
  const pre = fields.text('tokenizer.ggml.pre') ?? 'default';
  const splitting = makePreTokenizer(pre);
  if (model !== 'gpt2' || splitting === undefined) {
    const kind = model === 'gpt2' ? `the pre-tokenizer ${pre}` : `the kind ${model ?? 'none'}`;
    return none(
      `${fields.path}: a tokenizer with ${kind} is not read: name the model's tokenizer for training`,
    );
  }
  const tokens = fields.required('tokenizer.ggml.tokens', fields.texts('tokenizer.ggml.tokens'));
  const merges = fields.texts('tokenizer.ggml.merges') ?? [];
  const types = fields.counts('tokenizer.ggml.token_type') ?? tokens.map(() => tokenKinds.normal);
  if (tokens.length !== vocabularySize || types.length !== tokens.length) {
    throw ggufInvalid(
      fields.path,
      `it has ${tokens.length} tokens with ${types.length} types for ${vocabularySize} rows of token_embd.weight`,
    );
  }
  const ids = specialIds(fields, vocabularySize);
  const [begin, end] = [ids.get('bos_token'), ids.get('eos_token')];
  const around = tokensAround(tokens, {
    begin: fields.truth('tokenizer.ggml.add_bos_token') === true ? begin : undefined,
    end: fields.truth('tokenizer.ggml.add_eos_token') === true ? end : undefined,
  });
  const template = fields.text('tokenizer.chat_template');
  const settings = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    ...Object.fromEntries(
      [...ids].filter(([name]) => name !== 'eot').map(([name, id]) => [name, tokens[id]]),
    ),
    clean_up_tokenization_spaces: false,
    ...(template === undefined ? {} : { chat_template: template }),
  };
  return {
    files: {
      'tokenizer.json': `${JSON.stringify(tokenizerJson({ tokens, types, merges }, splitting, around))}\n`,
      'tokenizer_config.json': `${JSON.stringify(settings, null, 2)}\n`,
    },
    endTokens: [...new Set([end, ids.get('eot')])].filter((id) => id !== undefined),
    notices: [],
  };
}
