import { byteAlphabet } from '../training/byte-alphabet.js';
import { type ByteLevelBpe, byteLevelBpeJson } from './byte-level-bpe-json.js';
import { BytePairEncoder } from './byte-pair-encoder.js';
import { endOfText, loadGpt2Vocabulary } from './gpt2-vocabulary.js';
import { readGpt2Files } from './read-gpt2-files.js';
import type { TokenizerOptions } from './tokenizer-options.js';

/**
 * The files by which Hugging Face's libraries load the same tokenizer, name to text, for those that do not
 * consist of such files: `GPT2BPETokenizer`, which becomes tokenizer.json, vocab.json, merges.txt and
 * tokenizer_config.json, and `ByteLevelTokenizer`, a tokenizer.json and its tokenizer_config.json. Undefined
 * for the others. A text that spells out `<|endoftext|>` is that token to them.
 *
 * @throws DataError MTL_DATA_TOKENIZER when the files of a `GPT2BPETokenizer` cannot be used
 */
export async function exportTokenizer(
  options: TokenizerOptions,
): Promise<Readonly<Record<string, string>> | undefined> {
  if (options.type === 'ByteLevelTokenizer') {
    const tokens = Array.from(byteAlphabet.keys(), (byte) => String.fromCharCode(byte));
    return jsonFiles(bytePairs(tokens, { splitsWords: false }), 'PreTrainedTokenizerFast');
  }
  if (options.type !== 'GPT2BPETokenizer') return undefined;
  const { vocabFile, mergeFile } = options;
  const parts =
    vocabFile === undefined || mergeFile === undefined
      ? bytePairs(await loadGpt2Vocabulary(), { splitsWords: true })
      : readGpt2Files({ vocabFile, mergeFile });
  return {
    ...jsonFiles(parts, 'GPT2Tokenizer'),
    'vocab.json': JSON.stringify(parts.vocab),
    'merges.txt': ['#version: 0.2', ...parts.merges, ''].join('\n'),
  };
}

function jsonFiles(parts: ByteLevelBpe, tokenizerClass: string): Record<string, string> {
  const end = parts.endOfText?.content;
  const settings = {
    tokenizer_class: tokenizerClass,
    ...(end === undefined ? {} : { bos_token: end, eos_token: end, unk_token: end }),
    add_prefix_space: false,
    clean_up_tokenization_spaces: false,
  };
  return {
    'tokenizer.json': `${JSON.stringify(byteLevelBpeJson(parts))}\n`,
    'tokenizer_config.json': `${JSON.stringify(settings, null, 2)}\n`,
  };
}

/** A vocabulary of byte strings whose ids are the ranks of its merges, and the end of a text after them. */
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
