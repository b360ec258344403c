import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { IndexedDataset } from '@mtl/data';
import { createTokenizer } from '@mtl/tokenizers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runMtlIn } from './support/run-mtl-in.js';
import { filesUnder, temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
const cwd = directory.path;
afterAll(() => directory.dispose());

async function mtl(...argv: string[]): Promise<string> {
  const { status, stdout, stderr } = await runMtlIn(argv, { cwd });
  expect(stderr).toBe('');
  expect(status).toBe(0);
  return stdout;
}

const read = (name: string): Buffer => readFileSync(join(cwd, name));

beforeAll(() => {
  const lines = ['ab', '', 'cab'].map((text, index) => JSON.stringify({ text, title: `t${index}` }));
  writeFileSync(join(cwd, 'corpus.jsonl'), `${lines.join('\n')}\n`);
});

describe('mtl data prepare', () => {
  it('writes the bytes of a Megatron dataset, and reports what it wrote', async () => {
    const argv = [
      '--input',
      'corpus.jsonl',
      '--output-prefix',
      'made/a',
      '--tokenizer-type',
      'ByteLevelTokenizer',
    ];
    const stdout = await mtl('data', 'prepare', ...argv, '--append-eod');
    expect(stdout).toMatch(
      /^made\/a_text_document\.bin: 3 documents \(1 empty\), 7 tokens of uint16 in \d+\.\d s\n$/,
    );
    const tokens = new Uint16Array(new Uint8Array(read('made/a_text_document.bin')).buffer);
    const { eod } = await createTokenizer({ type: 'ByteLevelTokenizer' });
    expect([...tokens]).toEqual([97, 98, eod, 99, 97, 98, eod]);
    // the header of Megatron-LM's index: magic, version 1, dtype 8 (uint16), 2 or 3 sequences
    expect(read('made/a_text_document.idx').subarray(0, 18).toString('hex')).toBe(
      '4d4d49444944580000' + '0100000000000000' + '08',
    );
  });

  it('reads a folder, and prints which of its files it read', async () => {
    mkdirSync(join(cwd, 'texts'));
    for (const name of ['b.txt', 'a.txt', 'c.pdf']) writeFileSync(join(cwd, 'texts', name), name);
    const tokenizer = ['--tokenizer-type', 'ByteLevelTokenizer'];
    expect(
      await mtl('data', 'prepare', '--input', 'texts', '--output-prefix', 'folder', ...tokenizer),
    ).toMatch(
      /^texts: 2 files, sorted by name, a\.txt to b\.txt; not read: c\.pdf\nfolder_text_document\.bin: 2 documents, /,
    );
    expect(read('folder_text_document.inputs.txt').toString()).toBe('texts/a.txt\ntexts/b.txt\n');
  });

  it('leaves out bad lines where it is told to, and counts them', async () => {
    writeFileSync(join(cwd, 'bad.jsonl'), '{"text":"ab","score":NaN}\nno\n{"text":null}\n{"text":"c"}\n');
    const argv = ['--input', 'bad.jsonl', '--output-prefix', 'bad', '--tokenizer-type', 'ByteLevelTokenizer'];
    const refused = await runMtlIn(['data', 'prepare', ...argv], { cwd });
    expect(refused).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('bad.jsonl, line 2: is not'),
    });
    const { status, stdout, stderr } = await runMtlIn(['data', 'prepare', ...argv, '--skip-bad-lines'], {
      cwd,
    });
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: expect.stringMatching(
        /^warning\[MTL_DATA_BAD_LINES\]: 2 lines or rows are left out; the first: bad\.jsonl, line 2: is not JSON .*\n$/,
      ),
    });
    expect(stdout).toMatch(/^bad_text_document\.bin: 2 documents, 3 tokens /);
    const train = ['data', 'train-tokenizer', '--type', 'bpe', '--vocab-size', '260', '--input', 'bad.jsonl'];
    const trained = await runMtlIn([...train, '--output', 'bad.json', '--skip-bad-lines'], { cwd });
    expect(trained).toMatchObject({ status: 0, stderr: expect.stringContaining('2 lines or rows') });
  });

  it('makes a dataset for each key, whatever the number of threads', async () => {
    const argv = [
      '--input',
      'corpus.jsonl',
      '--tokenizer-type',
      'GPT2BPETokenizer',
      '--json-keys',
      'text',
      'title',
    ];
    const alone = await mtl('data', 'prepare', ...argv, '--output-prefix', 'alone', '--workers', '0');
    expect(alone.split('\n').map((line) => line.split(':')[0])).toEqual([
      'alone_text_document.bin',
      'alone_title_document.bin',
      '',
    ]);
    await mtl('data', 'prepare', ...argv, '--output-prefix', 'threads', '--workers', '2');
    for (const name of [
      'text_document.bin',
      'text_document.idx',
      'title_document.bin',
      'title_document.idx',
    ]) {
      expect(read(`threads_${name}`).equals(read(`alone_${name}`)), name).toBe(true);
    }
  });
});

describe('mtl data train-tokenizer and prepare, for BERT', () => {
  it('learn a vocab.txt and make a sequence of every sentence', async () => {
    writeFileSync(join(cwd, 'story.txt'), 'Mr. Low is lower. Is he new?\nHe is.\n\nLow is new.\n');
    const argv = ['--type', 'wordpiece', '--vocab-size', '60', '--input', 'story.txt'];
    await mtl('data', 'train-tokenizer', ...argv, '--output', 'vocab.txt');
    const special = read('vocab.txt').toString().split('\n').slice(0, 5);
    expect(special).toEqual(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']);
    const tokenizer = ['--tokenizer-type', 'BertWordPieceLowerCase', '--vocab-file', 'vocab.txt'];
    const stdout = await mtl(
      ...['data', 'prepare', '--input', 'story.txt', '--output-prefix', 'story'],
      ...['--split-sentences', ...tokenizer],
    );
    expect(stdout).toMatch(/^story_text_sentence\.bin: 2 documents, 4 sentences, \d+ tokens of uint16 in/);
    using dataset = IndexedDataset.open(join(cwd, 'story_text_sentence'));
    expect([...dataset.documentIndices]).toEqual([0, 3, 4]);
    const { decode } = await createTokenizer({
      type: 'BertWordPieceLowerCase',
      vocabFile: join(cwd, 'vocab.txt'),
    });
    expect(decode([...dataset.sequence(1)].map(Number))).toBe('is he new?');
  });
});

describe('mtl data inspect, verify and merge', () => {
  beforeAll(async () => {
    const argv = ['--input', 'corpus.jsonl', '--tokenizer-type', 'ByteLevelTokenizer', '--append-eod'];
    await mtl('data', 'prepare', ...argv, '--output-prefix', 'b');
  });

  it('shows what a dataset holds', async () => {
    expect(await mtl('data', 'inspect', 'b_text_document')).toMatchInlineSnapshot(`
      "b_text_document
        documents          3
        empty documents    1
        sequences          2
        tokens             7
        dtype              uint16
        tokens a sequence  3 to 4, on average 3.5
        files              .bin 14 B, .idx 90 B
      "
    `);
    const objects = await mtl('data', 'inspect', 'b_text_document.bin', 'b_text_document.idx', '--json');
    const [first, second] = objects
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { numTokens: number });
    expect(first).toEqual(second);
    expect(first!.numTokens).toBe(7);
  });

  it('checks every token', async () => {
    const stdout = await mtl('data', 'verify', 'b_text_document', '--vocab-size', '257');
    expect(stdout).toContain('97 to 256');
    expect(stdout.trimEnd().endsWith('every token id is valid')).toBe(true);
    const refused = await runMtlIn(['data', 'verify', 'b_text_document', '--vocab-size', '99'], { cwd });
    expect(refused.status).toBe(2);
    expect(refused.stdout).toBe('');
    expect(refused.stderr).toContain(
      'error[MTL_DATA_TOKEN_OUT_OF_VOCABULARY]: b_text_document: document 0, position 2',
    );
  });

  it('joins datasets', async () => {
    const stdout = await mtl(
      'data',
      'merge',
      '--input',
      'b_text_document',
      'b_text_document',
      '--output-prefix',
      'c',
    );
    expect(stdout).toBe('c.bin: 6 documents, 14 tokens of uint16 from 2 datasets\n');
    using merged = IndexedDataset.open(join(cwd, 'c'));
    expect([...merged.sequence(merged.numSequences - 1)]).toEqual([99, 97, 98, 256]);
  });
});

it('writes over no dataset and no tokenizer unless it is told to', async () => {
  writeFileSync(join(cwd, 'first.txt'), 'one two\n');
  writeFileSync(join(cwd, 'second.jsonl'), '{"text":"three","title":"t"}\n');
  const run = (...argv: string[]) => runMtlIn(['data', ...argv], { cwd });
  const to = ['--output-prefix', 'kept', '--tokenizer-type', 'ByteLevelTokenizer'];
  await mtl('data', 'prepare', '--input', 'first.txt', ...to);
  const before = read('kept_text_document.bin');
  const second = ['prepare', '--input', 'second.jsonl', ...to, '--json-keys', 'title', 'text'];
  const refused = await run(...second);
  expect(refused).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(
      /^error\[MTL_DATA_EXISTS\]: kept_text_document\.bin and kept_text_document\.idx exist already; expected .*--overwrite/s,
    ),
  });
  // nor is the other key begun
  expect(existsSync(join(cwd, 'kept_title_document.bin'))).toBe(false);
  expect(read('kept_text_document.bin').equals(before)).toBe(true);
  expect((await run(...second, '--overwrite')).status).toBe(0);
  expect(read('kept_text_document.bin').equals(before)).toBe(false);

  const merge = ['merge', '--input', 'kept_text_document', '--output-prefix', 'kept_title_document'];
  expect(await run(...merge)).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('MTL_DATA_EXISTS'),
  });
  expect((await run(...merge, '--overwrite')).status).toBe(0);
  expect(read('kept_title_document.bin').equals(read('kept_text_document.bin'))).toBe(true);

  writeFileSync(join(cwd, 'kept.json'), 'mine');
  const learn = ['train-tokenizer', '--type', 'bpe', '--vocab-size', '260', '--input', 'first.txt'];
  expect(await run(...learn, '--output', 'kept.json')).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('MTL_DATA_EXISTS]: kept.json exists already'),
  });
  expect(read('kept.json').toString()).toBe('mine');
  expect((await run(...learn, '--output', 'kept.json', '--overwrite')).status).toBe(0);
});

describe('mtl data train-tokenizer', () => {
  it('writes a tokenizer.json that prepare takes, the same each time', async () => {
    writeFileSync(join(cwd, 'words.txt'), 'low lower lowest newer newest\n\nlow low new new\n');
    const argv = ['--type', 'bpe', '--vocab-size', '262', '--input', 'words.txt'];
    expect(await mtl('data', 'train-tokenizer', ...argv, '--output', 'bpe.json')).toMatch(
      /^bpe\.json: 262 tokens in \d+\.\d s\n$/,
    );
    await mtl('data', 'train-tokenizer', ...argv, '--output', 'again.json');
    expect(read('again.json').equals(read('bpe.json'))).toBe(true);
    const tokenizer = ['--tokenizer-type', 'HuggingFaceTokenizer', '--tokenizer-model', 'bpe.json'];
    await mtl('data', 'prepare', '--input', 'words.txt', '--output-prefix', 'words', ...tokenizer);
    using dataset = IndexedDataset.open(join(cwd, 'words_text_document'));
    const { decode } = await createTokenizer({
      type: 'HuggingFaceTokenizer',
      tokenizerModel: join(cwd, 'bpe.json'),
    });
    expect(decode([...dataset.sequence(1)].map(Number))).toBe('low low new new');
  });

  it('reports when the corpus gives fewer tokens than asked for', async () => {
    const argv = [
      '--type',
      'wordpiece',
      '--vocab-size',
      '500',
      '--input',
      'words.txt',
      '--output',
      'wp.json',
    ];
    expect(await mtl('data', 'train-tokenizer', ...argv)).toMatch(
      /^wp\.json: \d+ tokens \(the corpus gives no more/,
    );
  });
});

it('mtl data prepare of files without a text makes a dataset of none, and reports it', async () => {
  writeFileSync(join(cwd, 'blank.txt'), '\n \n');
  const argv = ['data', 'prepare', '--input', 'blank.txt', '--output-prefix', 'blank'];
  const run = await runMtlIn([...argv, '--tokenizer-type', 'ByteLevelTokenizer'], { cwd });
  expect(run.stderr).toBe(
    'warning[MTL_DATA_NO_TOKENS]: blank.txt: no text in it, so nothing can be trained on blank_text_document\n',
  );
  expect(run.status).toBe(0);
});

describe('mtl data build-index', () => {
  it('fails where it cannot keep them', async () => {
    writeFileSync(join(cwd, 'no-directory'), '');
    const argv = [
      ...['--data-path', 'b_text_document', '--tokenizer-type', 'ByteLevelTokenizer', '--split', '1,0,0'],
      ...['--seq-length', '2', '--train-iters', '5', '--global-batch-size', '4', '--micro-batch-size', '4'],
      ...['--eval-iters', '0', '--data-cache-path', 'no-directory/index'],
    ];
    const { status, stderr } = await runMtlIn(['data', 'build-index', ...argv], { cwd });
    expect(stderr).toMatch(/^error\[MTL_DATA_INDEX_NOT_WRITTEN\]: no-directory\/index.* cannot be written: /);
    expect(status).toBe(2);
  });

  it('makes the index files of a training run once; a second call finds them', async () => {
    const argv = [
      ...['--data-path', 'b_text_document', '--tokenizer-type', 'ByteLevelTokenizer', '--split', '1,0,0'],
      ...['--seq-length', '2', '--train-iters', '5', '--global-batch-size', '4', '--micro-batch-size', '4'],
      ...['--eval-iters', '0', '--data-cache-path', 'index', '--seed', '9'],
    ];
    const first = await mtl('data', 'build-index', ...argv);
    expect(first).toMatch(/^index built in \d+ ms: .*\ntrain: \d+ samples\ndone in \d+\.\d s\n$/);
    const made = filesUnder(join(cwd, 'index'));
    const kinds = Object.keys(made).map((name) => name.replace(/^.*[a-f0-9]{32}-/, ''));
    expect(kinds.sort()).toEqual([
      'GPTDataset-train-description.txt',
      'GPTDataset-train-document_index.npy',
      'GPTDataset-train-sample_index.npy',
      'GPTDataset-train-shuffle_index.npy',
    ]);
    expect(await mtl('data', 'build-index', ...argv)).not.toContain('index built');
    expect(
      createHash('sha256')
        .update(JSON.stringify(filesUnder(join(cwd, 'index'))))
        .digest('hex'),
    ).toBe(createHash('sha256').update(JSON.stringify(made)).digest('hex'));
  });

  it("makes the indices of a BERT's training from sentences", async () => {
    const text = Array.from({ length: 9 }, (_, line) => `The cat sat on mat ${line}. It saw ${line} hens.`);
    writeFileSync(join(cwd, 'bert.txt'), text.join('\n\n'));
    const words = [
      '[PAD]',
      '[UNK]',
      '[CLS]',
      '[SEP]',
      '[MASK]',
      'the',
      'cat',
      'sat',
      'on',
      'mat',
      'it',
      'saw',
    ];
    writeFileSync(join(cwd, 'bert-vocab.txt'), `${words.join('\n')}\n`);
    const tokenizer = ['--tokenizer-type', 'BertWordPieceLowerCase', '--vocab-file', 'bert-vocab.txt'];
    const prepare = ['--input', 'bert.txt', '--output-prefix', 'bert', '--split-sentences'];
    await mtl('data', 'prepare', ...prepare, ...tokenizer);
    const made = await mtl(
      ...['data', 'build-index', '--data-path', 'bert_text_sentence', ...tokenizer, '--model', 'bert'],
      ...['--split', '1,0,0', '--seq-length', '16', '--train-iters', '5', '--micro-batch-size', '4'],
      ...['--eval-iters', '0', '--data-cache-path', 'bert-index', '--mask-prob', '0.2'],
    );
    expect(made).toMatch(/^index built in \d+ ms: .*\ntrain: \d+ samples\ndone in \d+\.\d s\n$/);
    const kinds = Object.keys(filesUnder(join(cwd, 'bert-index'))).map((name) => name.replace(/^.*-/, ''));
    expect(kinds.sort()).toEqual(['description.txt', 'sample_index.npy']);
  });
});
