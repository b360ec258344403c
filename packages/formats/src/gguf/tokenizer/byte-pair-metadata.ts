import { isJsonObject } from '@mtl/errors/files';
import { bool, type Metadata, text, texts, uint32 } from '../metadata.js';
import { tokenWithOtherMerges } from './letters-of-gpt4o.js';
import { type FoundPreTokenizer, findPreTokenizer, preTokenizerNames } from './pre-tokenizers.js';
import { type ListedToken, tokenKinds, tokenListMetadata } from './token-list.js';
import { type JsonObject, tokenizerRefused, tokenText } from './tokenizer-files.js';

/**
 * A model's tokenizer: the contents of tokenizer.json (`json`) and tokenizer_config.json (`settings`), and
 * the ids of the tokens that end a text.
 */
export interface ByteLevelTokenizerJson {
  readonly json: JsonObject;
  readonly settings: JsonObject;
  readonly vocabularySize: number;
  readonly endTokens: readonly number[];
}

const remedy = 'write the model with --save-hf DIR, which takes any tokenizer';

const refused = (problem: string, expected: string) => tokenizerRefused(problem, expected, remedy);

/**
 * Returns the components of a `Sequence`. A component of a different type is returned as a list with a single
 * entry.
 */
function listComponents(component: unknown, field: string): readonly JsonObject[] {
  if (!isJsonObject(component)) return [];
  const parts = component.type === 'Sequence' ? component[field] : [component];
  return Array.isArray(parts) ? parts.filter(isJsonObject) : [];
}

/**
 * Rejects a tokenizer.json with components that llama.cpp does not have.
 *
 * @returns notices about differences that affect only rare texts
 * @throws CheckpointError MTL_GGUF_TOKENIZER
 */
function checkParts({ model, normalizer }: JsonObject): readonly string[] {
  const { type, byte_fallback, dropout, continuing_subword_prefix, end_of_word_suffix } = model as JsonObject;
  const isBytePairs = type === 'BPE' && byte_fallback !== true;
  if (!isBytePairs) {
    const kind = type === 'BPE' ? 'BPE with bytes as a fallback (SentencePiece)' : String(type);
    throw refused(`a tokenizer of the type ${kind} is not written`, 'byte-level BPE');
  }
  if (dropout || continuing_subword_prefix || end_of_word_suffix) {
    throw refused(
      'llama.cpp has no BPE with dropout, prefixes or suffixes',
      'a tokenizer.json without dropout, continuing_subword_prefix and end_of_word_suffix',
    );
  }
  const normalizers = listComponents(normalizer, 'normalizers').map((part) => String(part.type));
  const unknown = normalizers.find((name) => name !== 'NFC');
  if (unknown !== undefined) {
    throw refused(`llama.cpp has no normalizer ${unknown} for byte-level BPE`, 'no normalizer, or NFC');
  }
  return normalizers.length === 0
    ? []
    : ['llama.cpp does not normalize texts: those in decomposed characters (not NFC) get other tokens'];
}

/** Returns the special tokens that the post-processor adds before and after a text. */
function tokensAround({ post_processor }: JsonObject): {
  readonly before: string[];
  readonly after: string[];
} {
  const [before, after]: [string[], string[]] = [[], []];
  for (const part of listComponents(post_processor, 'processors')) {
    if (part.type === 'ByteLevel') continue;
    if (part.type !== 'TemplateProcessing' || !Array.isArray(part.single)) {
      throw refused(
        `a post-processor ${String(part.type)} is not written`,
        'TemplateProcessing or ByteLevel',
      );
    }
    let target = before;
    for (const piece of part.single) {
      if (isJsonObject(piece) && isJsonObject(piece.SpecialToken)) target.push(String(piece.SpecialToken.id));
      else target = after;
    }
  }
  return { before, after };
}

/** Returns the tokens by id, and the ids by token. */
function listTokens(json: JsonObject): { byId: Map<number, ListedToken>; idByToken: Map<string, number> } {
  const { vocab } = json.model as { readonly vocab: Readonly<Record<string, number>> };
  const byId = new Map<number, ListedToken>();
  const idByToken = new Map<string, number>();
  for (const [token, id] of Object.entries(vocab)) {
    byId.set(id, { text: token, kind: tokenKinds.normal });
    idByToken.set(token, id);
  }
  for (const added of Array.isArray(json.added_tokens) ? json.added_tokens.filter(isJsonObject) : []) {
    const { id, content, special, single_word, lstrip, rstrip } = added as Record<string, unknown>;
    if (single_word === true || lstrip === true || rstrip === true) {
      throw refused(
        `llama.cpp does not match the token ${JSON.stringify(content)} as its flags say`,
        'added tokens without single_word, lstrip and rstrip',
      );
    }
    byId.set(id as number, {
      text: content as string,
      kind: special === true ? tokenKinds.control : tokenKinds.userDefined,
    });
    idByToken.set(content as string, id as number);
  }
  return { byId, idByToken };
}

/** Returns each merge as a string: two tokens separated by a space. */
function readMerges(json: JsonObject): readonly string[] {
  const { merges } = json.model as { readonly merges?: unknown };
  const listed = Array.isArray(merges) ? merges : [];
  return listed.map((merge) => (Array.isArray(merge) ? merge.join(' ') : String(merge)));
}

function namePreTokenizer(found: FoundPreTokenizer): string {
  if ('name' in found) return found.name;
  throw refused(
    `llama.cpp has no pre-tokenizer with the pattern ${found.unknown}`,
    `the pattern of ${preTokenizerNames.join(', ')}`,
  );
}

/**
 * Rejects a vocabulary with GPT-4o's pattern if llama.cpp would merge some tokens differently.
 *
 * @throws CheckpointError MTL_GGUF_TOKENIZER
 */
function checkLetters(tokens: ReadonlyMap<number, ListedToken>): void {
  const merged = [...tokens.values()].filter(({ kind }) => kind === tokenKinds.normal);
  const token = tokenWithOtherMerges(merged.map((one) => one.text));
  if (token === undefined) return;
  throw refused(
    `llama.cpp splits texts with marks or capitals outside of ASCII in another way than the pattern of GPT-4o, as in the token ${JSON.stringify(token)}`,
    'a vocabulary without such tokens, or another pattern',
  );
}

/**
 * Returns the metadata for special tokens, including the tokens that are added at the beginning and end of
 * each text.
 */
function specialTokens(
  { json, settings, endTokens }: ByteLevelTokenizerJson,
  idByToken: ReadonlyMap<string, number>,
): Metadata {
  const around = tokensAround(json);
  const idNamed = (name: string): number | undefined => {
    const token = tokenText(settings[name]);
    return token === undefined ? undefined : idByToken.get(token);
  };
  const begin = around.before.length > 0 ? idByToken.get(around.before[0]!) : idNamed('bos_token');
  const [end = idNamed('eos_token'), endOfTurn] = endTokens;
  const isKnown =
    around.before.length <= 1 &&
    around.after.length <= 1 &&
    (around.after.length === 0 || idByToken.get(around.after[0]!) === end);
  if (!isKnown) {
    throw refused(
      `llama.cpp does not put ${[...around.before, ...around.after].join(' ')} around texts`,
      'at most the token that begins texts and the token that ends them',
    );
  }
  const ids = {
    bos: begin,
    eos: end,
    eot: endOfTurn,
    unknown: idNamed('unk_token'),
    padding: idNamed('pad_token'),
  };
  return {
    ...Object.fromEntries(
      Object.entries(ids)
        .filter(([, id]) => id !== undefined)
        .map(([name, id]) => [`tokenizer.ggml.${name}_token_id`, uint32(id!)]),
    ),
    'tokenizer.ggml.add_bos_token': bool(around.before.length > 0),
    'tokenizer.ggml.add_eos_token': bool(around.after.length > 0),
  };
}

/**
 * Returns the metadata of a byte-level BPE.
 *
 * @throws CheckpointError MTL_GGUF_TOKENIZER for a tokenizer with a component that llama.cpp does not have;
 *   the message names the component
 */
export function bytePairMetadata(tokenizer: ByteLevelTokenizerJson): {
  readonly metadata: Metadata;
  readonly notices: readonly string[];
} {
  const { json, vocabularySize } = tokenizer;
  const notices = checkParts(json);
  const merges = readMerges(json);
  const found = findPreTokenizer({
    preTokenizer: json.pre_tokenizer,
    ignoresMerges: (json.model as JsonObject).ignore_merges === true,
    hasMerges: merges.length > 0,
  });
  const { byId, idByToken } = listTokens(json);
  const pre = namePreTokenizer(found);
  if (pre === 'gpt-4o') checkLetters(byId);
  return {
    metadata: {
      'tokenizer.ggml.model': text('gpt2'),
      'tokenizer.ggml.pre': text(pre),
      ...tokenListMetadata(byId, vocabularySize),
      'tokenizer.ggml.merges': texts(merges),
      ...specialTokens(tokenizer, idByToken),
    },
    notices,
  };
}
