import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type EndOfTurn, endOfTurn, readChatTemplate } from '@mtl/data/conversations';
import { createTokenizer, type TokenizerOptions } from '@mtl/tokenizers';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { keepTokenizer, savedTokenizer, saveTokenizer } from './saved-tokenizer.js';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'mtl-tokenizer-'));
});
afterEach(() => rmSync(root, { recursive: true }));

/** Makes a folder with a tokenizer of two files, and returns the tokenizer's options. */
function tokenizerIn(folder: string): { readonly options: TokenizerOptions } {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'tokenizer.json'), '{"model":1}');
  writeFileSync(join(folder, 'tokenizer_config.json'), '{"config":1}');
  const options = { type: 'HuggingFaceTokenizer', tokenizerModel: join(folder, 'tokenizer.json') };
  return { options: options as TokenizerOptions };
}

it('puts the files of a tokenizer back when the directory was deleted, also one loaded from there', async () => {
  const directory = join(root, 'run');
  for (const source of [join(root, 'source'), join(directory, 'tokenizer')]) {
    const tokenizer = tokenizerIn(source);
    await saveTokenizer(directory, tokenizer);
    const restore = await keepTokenizer(directory, tokenizer);
    rmSync(directory, { recursive: true });
    await restore();
    const folder = join(directory, 'tokenizer');
    expect(readdirSync(folder).sort()).toEqual(['tokenizer.json', 'tokenizer_config.json']);
    expect(readFileSync(join(folder, 'tokenizer.json'), 'utf8')).toBe('{"model":1}');
    // a file that exists is not replaced
    writeFileSync(join(folder, 'tokenizer.json'), 'changed');
    rmSync(join(folder, 'tokenizer_config.json'));
    await restore();
    expect(readFileSync(join(folder, 'tokenizer.json'), 'utf8')).toBe('changed');
    expect(readFileSync(join(folder, 'tokenizer_config.json'), 'utf8')).toBe('{"config":1}');
  }
});

it('keeps config.json, whose model type decides how a tokenizer is loaded', async () => {
  const source = join(root, 'source');
  const tokenizer = tokenizerIn(source);
  writeFileSync(join(source, 'config.json'), '{"model_type":"mistral"}');
  const directory = join(root, 'run');
  await saveTokenizer(directory, tokenizer);
  expect(readFileSync(join(directory, 'tokenizer', 'config.json'), 'utf8')).toBe('{"model_type":"mistral"}');
});

it('keeps generation_config.json, by which a resumed run learns the same end of an answer', async () => {
  const source = join(root, 'source');
  const { options } = tokenizerIn(source);
  const special = ['<user>', '<assistant>', '</s>'];
  const put = (name: string, value: unknown): void =>
    writeFileSync(join(source, name), typeof value === 'string' ? value : JSON.stringify(value));
  const vocab = Object.fromEntries([...special, 'a'].map((token, id) => [token, id]));
  put('tokenizer.json', {
    model: { type: 'WordLevel', vocab, unk_token: 'a' },
    pre_tokenizer: { type: 'Whitespace' },
  });
  put('tokenizer_config.json', { additional_special_tokens: special, eos_token: '</s>' });
  put('chat_template.jinja', "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}{% endfor %}");
  put('generation_config.json', { eos_token_id: 2 });
  const directory = join(root, 'run');
  const saved = savedTokenizer(await saveTokenizer(directory, { options }), { directory })!;
  const findEnd = async (one: TokenizerOptions): Promise<EndOfTurn | undefined> => {
    const tokenizer = await createTokenizer(one);
    return endOfTurn(readChatTemplate(tokenizer), tokenizer);
  };
  expect(await findEnd(options)).toMatchObject({ token: 2, text: '</s>' });
  expect(await findEnd(saved)).toEqual(await findEnd(options));
});

it('fails with the folder where it cannot write', async () => {
  const directory = join(root, 'run');
  const restore = await keepTokenizer(directory, tokenizerIn(join(root, 'source')));
  writeFileSync(directory, 'a file in its place');
  await expect(restore()).rejects.toMatchObject({
    code: 'MTL_CHECKPOINT_IO',
    message: expect.stringContaining(join(directory, 'tokenizer')),
  });
});

it('has nothing to keep of a tokenizer without files', async () => {
  const restore = await keepTokenizer(root, { options: { type: 'NullTokenizer', vocabSize: 9 } as never });
  await restore();
  await (await keepTokenizer(root, undefined))();
  expect(readdirSync(root)).toEqual([]);
});
