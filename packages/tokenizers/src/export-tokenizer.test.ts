import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { createTokenizer, exportTokenizer, type Tokenizer, trainByteLevelBpe } from './index.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Writes files to a new directory, and loads its tokenizer.json. */
async function written(name: string, files: Readonly<Record<string, string>>): Promise<Tokenizer> {
  mkdirSync(join(directory, name));
  for (const [file, contents] of Object.entries(files)) writeFileSync(join(directory, name, file), contents);
  return createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel: join(directory, name) });
}

// pieces of text at which GPT-2's pattern splits words: letters, numbers, marks, kinds of white space, and
// characters that only look like these
const piece = fc.constantFrom(
  ...['the', 'a', 'é', 'e\u0301', '打字', '😀', '𝔘', '1', '23', ' ', '  ', '\n', '\t', '\r\n', '\u0085'],
  ...['\ufeff', '\u00a0', '\u2003', '\u200b', "'s", "'LL", '_', '=', '---', '!?', '<|endoftext', '\u0000'],
);
const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));

function expectSameIds(tokenizer: Tokenizer, exported: Tokenizer): void {
  expect(exported).toMatchObject({ vocabularySize: tokenizer.vocabularySize, eod: tokenizer.eod });
  fc.assert(
    fc.property(text, (sample) => {
      const ids = Array.from(tokenizer.encode(sample));
      expect(exported.encode(sample)).toEqual(ids);
      expect(exported.decode(ids)).toBe(sample);
    }),
    { numRuns: 300 },
  );
}

describe('exportTokenizer', async () => {
  const gpt2 = (await exportTokenizer({ type: 'GPT2BPETokenizer' }))!;

  it('writes the files of GPT-2 as they were published', () => {
    expect(Object.keys(gpt2).sort()).toEqual([
      ...['merges.txt', 'tokenizer.json', 'tokenizer_config.json', 'vocab.json'],
    ]);
    const merges = gpt2['merges.txt']!.split('\n');
    expect(merges.slice(0, 4)).toEqual(['#version: 0.2', 'Ġ t', 'Ġ a', 'h e']);
    expect(merges.slice(-3)).toEqual(['Ġinform ants', 'Ġg azed', '']);
    expect(merges).toHaveLength(1 + 50_000 + 1);
    expect(Buffer.byteLength(gpt2['merges.txt']!)).toBe(456_318);
    const vocabulary = JSON.parse(gpt2['vocab.json']!) as Record<string, number>;
    expect(Object.keys(vocabulary)).toHaveLength(50_257);
    expect(vocabulary).toMatchObject({ '!': 0, Ġthe: 262, '<|endoftext|>': 50_256 });
    expect(JSON.parse(gpt2['tokenizer_config.json']!)).toMatchObject({
      tokenizer_class: 'GPT2Tokenizer',
      eos_token: '<|endoftext|>',
      add_prefix_space: false,
    });
  });

  it('gives GPT2BPETokenizer the same ids', async () => {
    expectSameIds(await createTokenizer({ type: 'GPT2BPETokenizer' }), await written('gpt2', gpt2));
  });

  it('gives GPT2BPETokenizer of other files the same ids', async () => {
    const { model } = await trainByteLevelBpe({
      texts: ['the 打字 a é'],
      vocabularySize: 270,
      minFrequency: 1,
    });
    const [vocabFile, mergeFile] = [join(directory, 'vocab.json'), join(directory, 'merges.txt')];
    writeFileSync(vocabFile, JSON.stringify(model.vocab));
    writeFileSync(mergeFile, model.merges!.map((pair) => [pair].flat().join(' ')).join('\r\n'));
    const options = { type: 'GPT2BPETokenizer', vocabFile, mergeFile } as const;
    const files = (await exportTokenizer(options))!;
    expect(Object.keys(files).sort()).toEqual(Object.keys(gpt2).sort());
    expectSameIds(await createTokenizer(options), await written('files', files));
  });

  it('gives ByteLevelTokenizer the same ids', async () => {
    const options = { type: 'ByteLevelTokenizer' } as const;
    const files = (await exportTokenizer(options))!;
    expect(Object.keys(files).sort()).toEqual(['tokenizer.json', 'tokenizer_config.json']);
    expectSameIds(await createTokenizer(options), await written('bytes', files));
  });

  it('writes the settings of a tokenizer.json that came without, and no others', async () => {
    const { 'tokenizer.json': json } = (await exportTokenizer({ type: 'ByteLevelTokenizer' }))!;
    const parsed = JSON.parse(json!) as { model: { vocab: Record<string, number> } };
    const vocab = { ...parsed.model.vocab, '<s>': 257, '<pad>': 258, '<unk>': 259 };
    const added_tokens = [{ id: 256, content: '<|endoftext|>', special: true }];
    const own = { ...parsed, added_tokens, model: { ...parsed.model, vocab, unk_token: '<unk>' } };
    const start = { SpecialToken: { id: '<s>', type_id: 0 } };
    const post_processor = {
      type: 'TemplateProcessing',
      single: [start, { Sequence: { id: 'A', type_id: 0 } }],
      special_tokens: { '<s>': { id: '<s>', ids: [257], tokens: ['<s>'] } },
    };
    const folder = join(directory, 'own');
    mkdirSync(folder);
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ ...own, post_processor }));
    const options = { type: 'HuggingFaceTokenizer', tokenizerModel: folder } as const;
    const files = (await exportTokenizer(options, { maxLength: 64 }))!;
    expect(Object.keys(files)).toEqual(['tokenizer_config.json']);
    expect(JSON.parse(files['tokenizer_config.json']!)).toEqual({
      tokenizer_class: 'PreTrainedTokenizerFast',
      bos_token: '<s>',
      eos_token: '<|endoftext|>',
      unk_token: '<unk>',
      pad_token: '<pad>',
      model_max_length: 64,
      clean_up_tokenization_spaces: false,
    });
    // a token in special_tokens_map.json is not named again
    writeFileSync(join(folder, 'special_tokens_map.json'), '{"bos_token": "<b>", "pad_token": "<unk>"}');
    const { 'tokenizer_config.json': named } = (await exportTokenizer(options))!;
    expect(JSON.parse(named!)).toMatchObject({
      bos_token: '<b>',
      unk_token: '<unk>',
      pad_token: '<unk>',
    });
    rmSync(join(folder, 'special_tokens_map.json'));
    const ended = await exportTokenizer({ ...options, eodToken: '<pad>' });
    expect(JSON.parse(ended!['tokenizer_config.json']!)).toMatchObject({ eos_token: '<pad>' });
    writeFileSync(join(folder, 'tokenizer_config.json'), '{}');
    expect(await exportTokenizer(options, { maxLength: 64 })).toBeUndefined();
  });

  it('writes the length that the model takes', async () => {
    for (const type of ['GPT2BPETokenizer', 'ByteLevelTokenizer'] as const) {
      const { 'tokenizer_config.json': settings } = (await exportTokenizer({ type }, { maxLength: 96 }))!;
      expect(JSON.parse(settings!)).toMatchObject({ model_max_length: 96 });
    }
  });

  it('leaves tokenizers to their own files', async () => {
    expect(await exportTokenizer({ type: 'NullTokenizer', vocabSize: 9 })).toBeUndefined();
    expect(await exportTokenizer({ type: 'BertWordPieceCase', vocabFile: 'vocab.txt' })).toBeUndefined();
  });
});
