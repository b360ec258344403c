import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type TokenizerFiles, writeGguf } from '../../src/gguf/index.js';
import { makePreTokenizer } from '../../src/gguf/tokenizer/pre-tokenizers.js';
import {
  configurations,
  parseModel,
  randomModel,
  type TinyModelName,
  tokenizerFiles,
  tokenizerJson,
} from './tiny-models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-gguf-'));
afterAll(() => rmSync(scratch, { recursive: true }));

type Fields = Readonly<Record<string, unknown>>;

async function writeChanged(
  name: TinyModelName,
  { config = {}, files = tokenizerFiles }: { readonly config?: Fields; readonly files?: TokenizerFiles },
): Promise<readonly string[]> {
  const fields = { ...configurations[name], ...config };
  using tiny = await randomModel(parseModel(fields));
  const { model, tensors } = tiny;
  return await writeGguf({
    path: join(scratch, 'model.gguf'),
    model,
    tensors,
    endTokens: [266],
    tokenizerFiles: files,
    origin: { config: { model_type: fields.model_type } },
  });
}

/** A model that llama.cpp computes in another way: its change, and what the error names. */
const models: ReadonlyArray<readonly [TinyModelName, Fields, string]> = [
  ['gpt2', { activation_function: 'gelu' }, 'GELU by the error function'],
  ['mistral', { sliding_window: 16 }, 'a window of 16 tokens (sliding_window)'],
  ['mixtral', { sliding_window: 16 }, 'a window of 16 tokens (sliding_window)'],
  ['qwen3-moe', { sliding_window: 8, use_sliding_window: true }, 'a window of 8 tokens'],
  ['qwen2-moe', { norm_topk_prob: true }, 'norm_topk_prob is true'],
  ['olmoe', { norm_topk_prob: true }, 'norm_topk_prob is true'],
  ['qwen3-moe', { norm_topk_prob: false }, 'norm_topk_prob is false'],
  ['qwen3-moe', { mlp_only_layers: [0] }, 'dense layers among layers with experts'],
  ['qwen2-moe', { decoder_sparse_step: 2 }, 'dense layers among layers with experts'],
  ['olmoe', { num_key_value_heads: 2 }, 'fewer heads of keys and values'],
  ['qwen2', { rope_scaling: configurations['llama-3'].rope_scaling }, "Llama 3's frequencies"],
  ['smollm3', { no_rope_layer_interval: 2 }, 'other layers without rotation than each fourth'],
  ['smollm3', { no_rope_layers: [1, 1, 1, 0, 0] }, 'other layers without rotation than each fourth'],
  ['smollm3', { attention_bias: true, mlp_bias: true }, 'biases'],
  ['smollm3', { rope_scaling: configurations['llama-3'].rope_scaling }, "Llama 3's frequencies"],
  [
    'llama-yarn',
    { rope_scaling: { ...(configurations['llama-yarn'].rope_scaling as object), truncate: false } },
    'truncate',
  ],
];

describe('a model that llama.cpp computes in another way', () => {
  it.each(models)('%s with %o is refused by name', async (name, config, problem) => {
    await expect(writeChanged(name, { config })).rejects.toMatchObject({
      code: 'MTL_GGUF_ARCHITECTURE',
      message: expect.stringContaining(problem),
    });
    expect(readdirSync(scratch)).toEqual([]);
  });

  it('is written if it has a window that no position leaves', async () => {
    await writeChanged('mistral', { config: { sliding_window: 64 } });
    rmSync(join(scratch, 'model.gguf'));
  });
});

const withJson = (change: Fields): TokenizerFiles => ({
  ...tokenizerFiles,
  'tokenizer.json': { contents: JSON.stringify({ ...tokenizerJson, ...change }) },
});
const split = (pattern: string) => ({
  type: 'Sequence',
  pretokenizers: [
    { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false },
    { ...tokenizerJson.pre_tokenizer, use_regex: false },
  ],
});

/** A tokenizer that llama.cpp does not have: its files, and what the error names. */
const tokenizers: ReadonlyArray<readonly [string, TokenizerFiles, string]> = [
  ['none', {}, 'the model has no tokenizer'],
  [
    'an unknown pattern',
    withJson({ pre_tokenizer: split('[a-z]+|.') }),
    'no pre-tokenizer with the pattern [a-z]+|.',
  ],
  [
    'GPT-4o with marks',
    withJson({
      pre_tokenizer: makePreTokenizer('gpt-4o')!.preTokenizer,
      // the letter e and a combining accent, as bytes
      model: { ...tokenizerJson.model, vocab: { ...tokenizerJson.model.vocab, eÌģ: 250 } },
    }),
    'marks or capitals outside of ASCII',
  ],
  [
    'a prefix space',
    withJson({ pre_tokenizer: { ...tokenizerJson.pre_tokenizer, add_prefix_space: true } }),
    '"add_prefix_space":true',
  ],
  ['a normalizer', withJson({ normalizer: { type: 'Lowercase' } }), 'no normalizer Lowercase'],
  ['Unigram', withJson({ model: { type: 'Unigram', vocab: {} } }), 'of the type Unigram'],
  [
    'SentencePiece',
    withJson({ model: { ...tokenizerJson.model, byte_fallback: true } }),
    'bytes as a fallback',
  ],
  ['dropout', withJson({ model: { ...tokenizerJson.model, dropout: 0.1 } }), 'dropout'],
  [
    'a token that takes spaces with it',
    withJson({ added_tokens: [{ ...tokenizerJson.added_tokens[0]!, lstrip: true }] }),
    '"<|endoftext|>" as its flags say',
  ],
  [
    'an id beyond the vocabulary',
    withJson({ added_tokens: [{ ...tokenizerJson.added_tokens[0]!, id: 300 }] }),
    'the id 300',
  ],
  [
    'no JSON',
    { 'tokenizer.json': { contents: '{' } },
    'tokenizer.json of the tokenizer holds no JSON object',
  ],
];

describe('a tokenizer that llama.cpp does not have', () => {
  it.each(tokenizers)('%s is refused by name', async (_, files, problem) => {
    await expect(writeChanged('gpt2', { files })).rejects.toMatchObject({
      code: 'MTL_GGUF_TOKENIZER',
      message: expect.stringContaining(problem),
    });
    expect(readdirSync(scratch)).toEqual([]);
  });
});

it('never writes over a file, and leaves nothing of a file that cannot be written', async () => {
  const path = join(scratch, 'model.gguf');
  await writeChanged('gpt2', {});
  await expect(writeChanged('gpt2', {})).rejects.toMatchObject({ code: 'MTL_GGUF_EXISTS' });
  rmSync(path);
  using tiny = await randomModel(parseModel(configurations.gpt2));
  const last = tiny.tensors.at(-1)!;
  const broken = { ...last, readInto: () => Promise.reject(new Error('the disk is gone')) };
  const tensors = [...tiny.tensors.slice(0, -1), broken];
  const options = { path, model: tiny.model, tensors, tokenizerFiles, endTokens: [266] };
  await expect(writeGguf(options)).rejects.toMatchObject({ code: 'MTL_GGUF_IO' });
  const infinite = { ...last, readInto: (target: Uint8Array) => void target.fill(0xff) };
  const others = { ...options, tensors: [...tiny.tensors.slice(0, -1), infinite] };
  await expect(writeGguf(others)).rejects.toMatchObject({ code: 'MTL_NOT_FINITE' });
  expect(existsSync(path)).toBe(false);
  expect(readdirSync(scratch)).toEqual([]);
});
