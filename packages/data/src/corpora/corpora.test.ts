import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { createTokenizer } from '@mtl/tokenizers';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import fc from 'fast-check';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { IndexedDataset, IndexedDatasetWriter, prepareDataset, readDocuments } from '../index.js';
import type { ReadDocumentsOptions } from './corpus-files.js';
import type { PrepareProgress } from './prepare-dataset.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

async function read(path: string, options: Omit<ReadDocumentsOptions, 'path'> = {}): Promise<string[]> {
  const documents: string[] = [];
  for await (const document of readDocuments({ path, ...options })) documents.push(document);
  return documents;
}

const lines = (documents: readonly string[], key = 'text') =>
  documents.map((text) => `${JSON.stringify({ id: 1, [key]: text })}\n`).join('');

const corpusError = (message: RegExp) => ({
  code: 'MTL_DATA_CORPUS',
  message: expect.stringMatching(message),
});

describe('readDocuments', () => {
  it('reads any text from JSON lines, zipped or not', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ unit: 'binary' })), async (documents) => {
        const text = lines(documents);
        expect(await read(file('a.jsonl', text))).toEqual(documents);
        expect(await read(file('a.jsonl.gz', gzipSync(text)))).toEqual(documents);
      }),
      { numRuns: 30 },
    );
  });

  it('takes another key, Windows line ends, blank lines, a byte order mark and no last newline', async () => {
    const path = file('a.json', '\ufeff{"body":"x"}\r\n\r\n  \n{"body":"y"}');
    expect(await read(path, { jsonKey: 'body' })).toEqual(['x', 'y']);
  });

  it('reads lines longer than its buffer', async () => {
    const long = 'x'.repeat(3_000_000);
    expect(await read(file('a.jsonl', lines(['a', long, 'b'])))).toEqual(['a', long, 'b']);
  });

  it('splits plain text at blank lines, or not at all', async () => {
    const path = file('a.txt', '\n\nfirst\nsecond\n \nthird\r\n\n\n');
    expect(await read(path)).toEqual(['first\nsecond', 'third']);
    expect(await read(path, { textDocuments: 'file' })).toEqual(['\n\nfirst\nsecond\n \nthird\n\n']);
  });

  it('reads a column of a Parquet file, row group by row group', async () => {
    const data = Array.from({ length: 2500 }, (_, i) => `document ${i} ✓`);
    const buffer = parquetWriteBuffer({
      columnData: [
        { name: 'text', data },
        { name: 'n', data: data.map((_, i) => i) },
      ],
      rowGroupSize: 1000,
    });
    const path = file('a.parquet', new Uint8Array(buffer));
    expect(await read(path)).toEqual(data);
    await expect(read(path, { jsonKey: 'texts' })).rejects.toMatchObject({
      ...corpusError(/no column "texts"/),
      remedy: expect.stringContaining('"text"'),
    });
    await expect(read(path, { jsonKey: 'n' })).rejects.toMatchObject(corpusError(/column "n" is INT32/));
  });

  it('ends at once when it is interrupted while a thread decodes Parquet', async () => {
    const data = Array.from({ length: 20_000 }, (_, i) => `document ${i}`);
    const path = file(
      'a.parquet',
      new Uint8Array(parquetWriteBuffer({ columnData: [{ name: 'text', data }] })),
    );
    const controller = new AbortController();
    const documents = readDocuments({ path, signal: controller.signal });
    const first = documents.next();
    controller.abort('stopped');
    await expect(first).rejects.toBe('stopped');
    await expect(read(path, { signal: AbortSignal.abort('before') })).rejects.toBe('before');
  });

  it('recommends no key whose value is no text', async () => {
    const path = file('a.jsonl', '{"text":7,"texts":"a","test":8}\n');
    await expect(read(path)).rejects.toMatchObject({
      remedy: 'choose the key of the text, for example "texts"',
    });
    const other = file('b.jsonl', '{"id":1,"content":"a"}\n');
    await expect(read(other)).rejects.toMatchObject({
      remedy: 'choose the key of the text, for example "content"',
    });
  });

  it.each([
    ['a.jsonl', '{"text":"a"}\n\n{"text":\n', /a\.jsonl, line 3: is not JSON/],
    ['a.jsonl', '{"text":"a"}\n[1]\n', /line 2: is not a JSON object/],
    ['a.jsonl', '{"texts":"a"}\n', /line 1: has no key "text"/],
    ['a.jsonl', '{"text":7}\n', /line 1: "text" is not a text/],
    ['a.jsonl', Buffer.from([0x61, 0x0a, 0xff, 0x0a]), /line 1: is not JSON/],
    ['a.txt', Buffer.from([0x61, 0x0a, 0xff, 0x0a]), /line 2: is not UTF-8/],
    ['a.jsonl.gz', 'not zipped', /cannot be read/],
    ['a.jsonl.gz', gzipSync(lines(['a'.repeat(5000)])).subarray(0, 30), /cannot be read/],
    ['a.parquet', 'PAR1 but no', /not a readable Parquet file/],
    ['a.parquet', '', /not a readable Parquet file/],
    ['a.pdf', '', /does not show its format/],
  ])('refuses %s holding %j', async (name, content, message) => {
    await expect(async () => read(file(name, content))).rejects.toMatchObject(corpusError(message));
  });

  it('names all names that it knows where it knows none', async () => {
    await expect(async () => read(file('a.pdf', ''))).rejects.toMatchObject({
      expected: 'a name in .txt, .text, .md, .jsonl, .json, .ndjson (each also with .gz) or .parquet',
    });
  });

  it.each(['a.jsonl', 'a.txt', 'a.txt.gz', 'a.parquet'])('says that %s is missing', async (name) => {
    await expect(read(join(directory, name))).rejects.toMatchObject(corpusError(/no such file/));
  });
});

describe('prepareDataset', () => {
  const documents = Array.from({ length: 400 }, (_, i) =>
    i % 50 === 7 ? '' : `Document ${i}: ${'word '.repeat(i % 90)}é✓`,
  );

  it.each([0, 2, ...inWholeRuns(1, 3)])(
    'writes the same bytes as a writer fed by hand, with %i threads',
    async (workers) => {
      const tokenizer = await createTokenizer({ type: 'GPT2BPETokenizer' });
      const byHand = new IndexedDatasetWriter({ prefix: join(directory, 'hand'), dtype: 'uint16' });
      for (const text of documents) {
        if (text !== '') byHand.addSequence([...tokenizer.encode(text), tokenizer.eod]);
        byHand.endDocument();
      }
      byHand.finish();
      const progress: PrepareProgress[] = [];
      const summary = await prepareDataset({
        inputs: [
          file('a.jsonl', lines(documents.slice(0, 150))),
          file('b.jsonl', lines(documents.slice(150))),
        ],
        outputPrefix: join(directory, 'out'),
        tokenizer: { type: 'GPT2BPETokenizer' },
        appendEod: true,
        workers,
        onProgress: (state) => progress.push(state),
      });
      for (const extension of ['bin', 'idx']) {
        expect(readFileSync(join(directory, `out_text_document.${extension}`))).toEqual(
          readFileSync(join(directory, `hand.${extension}`)),
        );
      }
      expect(summary).toMatchObject({
        numDocuments: 400,
        numSequences: 392,
        numEmptyDocuments: 8,
        dtype: 'uint16',
      });
      const last = progress.at(-1)!;
      expect(last).toEqual({
        documents: 400,
        tokens: summary.numTokens,
        bytes: last.totalBytes,
        totalBytes: last.totalBytes,
      });
    },
  );

  it('keeps the order of a corpus of many batches whatever finishes first', async () => {
    const many = Array.from({ length: 60 }, (_, i) => `${i} `.repeat(i % 2 === 0 ? 60_000 : 5));
    const input = file('many.jsonl', lines(many));
    const run = (workers: number) =>
      prepareDataset({
        inputs: [input],
        outputPrefix: join(directory, `w${workers}`),
        tokenizer: { type: 'ByteLevelTokenizer' },
        workers,
      });
    await run(0);
    await run(2);
    // toEqual would compare megabytes element by element
    const bytes = (name: string) => readFileSync(join(directory, `${name}_text_document.bin`));
    expect(bytes('w2').equals(bytes('w0'))).toBe(true);
    using dataset = IndexedDataset.open(join(directory, 'w2_text_document'));
    expect(dataset.numDocuments).toBe(60);
  });

  it.each([0, 2])('makes a sequence of every sentence, with %i threads', async (workers) => {
    const texts = ['One is here. Two? Three!', '', ' \n ', 'Only one', 'Dr. A. B. Clark came.\nHe left.'];
    const sentences = [
      ['One is here.', 'Two?', 'Three!'],
      [],
      [],
      ['Only one'],
      ['Dr. A. B. Clark came.', 'He left.'],
    ];
    const tokenizer = await createTokenizer({ type: 'GPT2BPETokenizer' });
    const byHand = new IndexedDatasetWriter({ prefix: join(directory, 'hand'), dtype: 'uint16' });
    for (const document of sentences) {
      for (const [i, sentence] of document.entries()) {
        const end = i === document.length - 1 ? [tokenizer.eod] : [];
        byHand.addSequence([...tokenizer.encode(sentence), ...end]);
      }
      byHand.endDocument();
    }
    byHand.finish();
    const summary = await prepareDataset({
      inputs: [file('a.jsonl', lines(texts))],
      outputPrefix: join(directory, 'out'),
      tokenizer: { type: 'GPT2BPETokenizer' },
      appendEod: true,
      splitSentences: true,
      workers,
    });
    expect(summary).toMatchObject({
      prefix: join(directory, 'out_text_sentence'),
      numDocuments: 5,
      numSequences: 6,
      numEmptyDocuments: 2,
    });
    for (const extension of ['bin', 'idx']) {
      expect(readFileSync(join(directory, `out_text_sentence.${extension}`))).toEqual(
        readFileSync(join(directory, `hand.${extension}`)),
      );
    }
  });

  it('names the dataset by the key and takes ids of an exact vocabulary', async () => {
    const input = file('ids.jsonl', lines(['1 2 3', '4 99999'], 'ids'));
    const summary = await prepareDataset({
      inputs: [input],
      outputPrefix: join(directory, 'n'),
      tokenizer: { type: 'NullTokenizer', vocabSize: 100_000 },
      jsonKey: 'ids',
    });
    expect(summary).toMatchObject({
      prefix: join(directory, 'n_ids_document'),
      dtype: 'int32',
      numTokens: 5,
    });
  });

  it.each([0, 2])('leaves no dataset behind when a line is broken (%i threads)', async (workers) => {
    const input = file('bad.jsonl', `${lines(documents)}{"text":`);
    const options = {
      inputs: [input],
      outputPrefix: join(directory, 'out'),
      tokenizer: { type: 'ByteLevelTokenizer' as const },
      workers,
    };
    await expect(prepareDataset(options)).rejects.toMatchObject(
      corpusError(/bad\.jsonl, line 401: is not JSON/),
    );
    expect(readdirSync(directory)).toEqual(['bad.jsonl']);
  });

  it('leaves nothing behind when a Parquet file is damaged or it is interrupted', async () => {
    const data = Array.from({ length: 30_000 }, (_, i) => `document ${i}`);
    const columnData = [{ name: 'text', data }];
    const bytes = new Uint8Array(
      parquetWriteBuffer({ columnData, rowGroupSize: 10_000, codec: 'UNCOMPRESSED' }),
    );
    const input = file('a.parquet', bytes);
    const controller = new AbortController();
    const options = {
      inputs: [input],
      outputPrefix: join(directory, 'out'),
      tokenizer: { type: 'ByteLevelTokenizer' as const },
      workers: 0,
      signal: controller.signal,
    };
    bytes.fill(0, bytes.length >> 1, (bytes.length >> 1) + 64);
    writeFileSync(input, bytes);
    await expect(prepareDataset(options)).rejects.toMatchObject(corpusError(/a\.parquet/));
    const onProgress = () => controller.abort('stopped');
    await expect(prepareDataset({ ...options, onProgress })).rejects.toBe('stopped');
    expect(readdirSync(directory)).toEqual(['a.parquet']);
  });

  it.each([0, 2])('stops in the middle of a document, with %i threads', async (workers) => {
    // The pattern tries 2^length possibilities, so tokenizing would never finish.
    const tokenizerModel = file(
      'tokenizer.json',
      JSON.stringify({
        model: { type: 'BPE', vocab: { a: 0 }, merges: [], unk_token: 'a' },
        added_tokens: [{ id: 1, content: '</s>', special: true }],
        pre_tokenizer: {
          type: 'Split',
          pattern: { Regex: '(a|a)+b' },
          behavior: 'Isolated',
          invert: false,
        },
      }),
    );
    const inputs = [file('long.jsonl', lines(['a'.repeat(300_000)]))];
    const controller = new AbortController();
    const { signal } = controller;
    setTimeout(() => controller.abort('stopped'), 100);
    const tokenizer = { type: 'HuggingFaceTokenizer' as const, tokenizerModel };
    await expect(
      prepareDataset({ inputs, outputPrefix: join(directory, 'out'), tokenizer, workers, signal }),
    ).rejects.toBe('stopped');
    expect(readdirSync(directory).sort()).toEqual(['long.jsonl', 'tokenizer.json']);
  });

  it('hears of a signal between batches of short documents, without threads', async () => {
    const controller = new AbortController();
    let turns = 0;
    const count = setInterval(() => turns++, 0);
    const inputs = [file('many.jsonl', lines(Array(400).fill('word '.repeat(200))))];
    const onProgress = ({ documents }: PrepareProgress) => {
      if (documents === 400) controller.abort('done');
    };
    const tokenizer = { type: 'ByteLevelTokenizer' as const };
    const { signal } = controller;
    const run = prepareDataset({
      inputs,
      outputPrefix: join(directory, 'out'),
      tokenizer,
      workers: 0,
      signal,
      onProgress,
    });
    await expect(run).rejects.toBe('done');
    clearInterval(count);
    expect(turns).toBeGreaterThan(1);
  });

  it('brings coded errors over from its threads', async () => {
    const input = file('ids.jsonl', lines(['1 2', 'seven']));
    const tokenizer = { type: 'NullTokenizer' as const, vocabSize: 10 };
    await expect(
      prepareDataset({ inputs: [input], outputPrefix: join(directory, 'x'), tokenizer, workers: 2 }),
    ).rejects.toMatchObject({
      code: 'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
      message: expect.stringContaining('"seven"'),
    });
  });

  it('reads the corpus files of a folder in the order of their paths, and records them', async () => {
    const folder = join(directory, 'texts');
    mkdirSync(join(folder, 'b'), { recursive: true });
    const names = ['c.txt', 'b/2.jsonl', 'b/10.txt', 'B.txt', '.hidden.txt', 'b/notes.pdf'];
    for (const name of names) {
      writeFileSync(join(folder, name), name.endsWith('.jsonl') ? lines([name]) : name);
    }
    const options = {
      outputPrefix: join(directory, 'out'),
      tokenizer: { type: 'ByteLevelTokenizer' },
    } as const;
    const { inputs } = await prepareDataset({ ...options, inputs: [folder] });
    const inFolder = (...paths: string[]): string[] => paths.map((path) => join(folder, path));
    const files = inFolder('B.txt', 'b/10.txt', 'b/2.jsonl', 'c.txt');
    expect(inputs).toEqual([{ input: folder, isFolder: true, files, skipped: inFolder('b/notes.pdf') }]);
    const record = join(directory, 'out_text_document.inputs.txt');
    expect(readFileSync(record, 'utf8')).toBe(files.map((path) => `${path}\n`).join(''));
    const bytes = readFileSync(join(directory, 'out_text_document.bin'));
    // if the same files are given by name, the output has the same bytes, although there is no record of the
    // inputs
    const again = { ...options, inputs: files };
    await expect(prepareDataset(again)).rejects.toMatchObject({ code: 'MTL_DATA_EXISTS' });
    await prepareDataset({ ...again, overwrite: true });
    expect(readFileSync(join(directory, 'out_text_document.bin'))).toEqual(bytes);
    expect(readdirSync(directory)).not.toContain('out_text_document.inputs.txt');
  });

  it('refuses what cannot work', async () => {
    const tokenizer = await createTokenizer({ type: 'ByteLevelTokenizer' });
    const input = file('a.txt', 'a');
    const base = { inputs: [input], outputPrefix: join(directory, 'x'), tokenizer };
    await expect(prepareDataset({ ...base, inputs: [] })).rejects.toMatchObject({
      code: 'MTL_DATA_NO_INPUT',
    });
    mkdirSync(join(directory, 'empty'));
    writeFileSync(join(directory, 'empty', 'a.pdf'), '');
    await expect(prepareDataset({ ...base, inputs: [join(directory, 'empty')] })).rejects.toMatchObject({
      ...corpusError(/is a folder without corpus files/),
      expected: expect.stringContaining('.txt, .text, .md, '),
    });
    await expect(prepareDataset({ ...base, workers: -1 })).rejects.toMatchObject({
      code: 'MTL_DATA_WORKERS',
    });
    const own = { ...tokenizer, options: undefined };
    await expect(prepareDataset({ ...base, tokenizer: own, workers: 1 })).rejects.toMatchObject({
      code: 'MTL_DATA_WORKERS',
    });
    const lying = { ...tokenizer, options: undefined, vocabularySize: 50 };
    await expect(prepareDataset({ ...base, tokenizer: lying })).rejects.toMatchObject({
      code: 'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
    });
  });
});
