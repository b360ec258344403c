import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BadLines, IndexedDataset, prepareDataset, readDocuments } from '../index.js';
import { readLineBatches, readLines } from './read-lines.js';
import { readPlainText } from './read-plain-text.js';

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

async function read(path: string, bad = new BadLines({ skip: false })): Promise<string[]> {
  const documents: string[] = [];
  for await (const text of readDocuments({ path, onBadLine: bad.onBadLine })) documents.push(text);
  return documents;
}

const corpusError = (message: RegExp) => ({
  code: 'MTL_DATA_CORPUS',
  message: expect.stringMatching(message),
});

describe('readDocuments', () => {
  it.each([
    [
      'a.jsonl',
      Buffer.from('{"text":"a"}\n{"text":\n[1]\n{"body":"b"}\n{"text":7}\n"\xff"\n{"text":"c"}\n', 'latin1'),
      ['a', 'c'],
      /a\.jsonl, line 2: is not JSON/,
      5,
    ],
    ['a.json', '[{"text":"a"}, 7, {"text":"b"}]', ['a', 'b'], /line 1, element 2: is not a JSON object/, 1],
    ['a.json', '[{"text":"a"},\n{"text":"b"', ['a'], /line 1: begins an array that does not end/, 1],
    ['a.txt', Buffer.from('a\n\xff\nb\n\nc', 'latin1'), ['a\nb', 'c'], /line 2: is not UTF-8/, 1],
    [
      'a.parquet',
      new Uint8Array(parquetWriteBuffer({ columnData: [{ name: 'text', data: ['a', null, 'b', null] }] })),
      ['a', 'b'],
      /row 1 of column "text" is null/,
      2,
    ],
  ] as const)(
    'counts what is not usable in %s, where it is left out',
    async (name, content, texts, first, count) => {
      const path = file(name, content);
      await expect(read(path)).rejects.toMatchObject(corpusError(first));
      const bad = new BadLines({ skip: true });
      expect(await read(path, bad)).toEqual(texts);
      expect(bad).toMatchObject({ count, first: corpusError(first) });
    },
  );

  it('reads NaN and Infinity next to the text, as Python does, and in the text as they are', async () => {
    const path = file(
      'a.jsonl',
      '{"score": NaN, "text": "NaN \\" Infinity"}\n{"text": "b", "of": [-Infinity, Infinity, {"NaN": NaN}]}\n',
    );
    expect(await read(path)).toEqual(['NaN " Infinity', 'b']);
    for (const line of [
      '{"text": NaN}',
      '{"text": "a", "of": -NaN}',
      '{"text": "a", "of": nan}',
      '{NaN: 1}',
      '[NaNNaN]',
    ])
      await expect(read(file('b.jsonl', line))).rejects.toMatchObject(corpusError(/line 1/));
    // the column in the message counts from the start of the line
    await expect(read(file('b.jsonl', '{"of": NaN, "text": x}'))).rejects.toMatchObject(
      corpusError(/position 20|at 20|'x'/),
    );
  });

  it.each([
    ['[]', []],
    [' [\n]\n\n', []],
    ['[{"text":"a, ] } \\" b"},{"of":[[{}],"]"],"text":"c"}]', ['a, ] } " b', 'c']],
    ['[\n  {\n    "text": "a"\n  },\n\n  {\n    "text": "b",\n    "of": [1,\n 2]\n  }\n]\n', ['a', 'b']],
  ])('reads an array of objects as it reads JSON lines: %j', async (content, texts) => {
    expect(await read(file('a.json', content))).toEqual(texts);
  });

  it.each([
    ['[{"text":"a"},\n {"text":}]', /line 2, element 2: is not JSON/],
    ['[{"text":"a"},]', /line 1, element 2: is not JSON/],
    ['[{"text":"a"}]\n{"text":"b"}', /line 2: has more text behind the array/],
  ])('names the place of what is wrong with an array: %j', async (content, message) => {
    await expect(read(file('a.json', content))).rejects.toMatchObject(corpusError(message));
  });

  it('tells how to make JSON lines of an object over several lines', async () => {
    await expect(read(file('a.json', '{\n  "text": "a"\n}\n'))).rejects.toMatchObject({
      remedy: expect.stringMatching(/jq -c \. .*a\.json$/),
    });
  });
});

describe('readLines', () => {
  it('leaves out a line that is too long, and goes on behind it', async () => {
    const long = Buffer.alloc(5 << 20, 'x');
    const path = file('a.jsonl', Buffer.concat([long, Buffer.from('\nb\n'), long]));
    const maximumLineBytes = 2 << 20;
    const bad: string[] = [];
    const found: string[] = [];
    const onBadLine = ({ message }: Error): void => void bad.push(message);
    for await (const { text, number } of readLines({ path, maximumLineBytes, onBadLine }))
      found.push(`${number}: ${text}`);
    expect(found).toEqual(['2: b']);
    expect(bad).toEqual([1, 3].map((line) => `${path}, line ${line}: is longer than 2097152 bytes`));
    const first = readLines({ path, maximumLineBytes }).next();
    await expect(first).rejects.toMatchObject(corpusError(/line 1: is longer than 2097152 bytes/));
  });
});

describe('readPlainText', () => {
  const readTexts = async (path: string, documents: 'paragraph' | 'file', maximumCharacters: number) => {
    const texts: string[] = [];
    for await (const text of readPlainText({ path, documents, maximumCharacters })) texts.push(text);
    return texts;
  };

  it('names the line where a document begins that no string can hold', async () => {
    const path = file('a.txt', 'ab\n\ncd\nef\ng\n\nh');
    expect(await readTexts(path, 'paragraph', 7)).toEqual(['ab', 'cd\nef\ng', 'h']);
    expect(await readTexts(path, 'file', 14)).toEqual(['ab\n\ncd\nef\ng\n\nh']);
    await expect(readTexts(path, 'paragraph', 6)).rejects.toMatchObject({
      ...corpusError(/a\.txt, line 3: begins a document of more than 6 characters without a blank line/),
      remedy: expect.stringContaining('sed G'),
    });
    await expect(readTexts(path, 'file', 13)).rejects.toMatchObject(
      corpusError(/a\.txt, line 1: the file is one document of more than 13 characters/),
    );
  });
});

describe('prepareDataset', () => {
  it('writes what is usable with skipBadLines, and counts the rest', async () => {
    const tokenizer = { type: 'ByteLevelTokenizer' } as const;
    const inputs = [file('a.jsonl', '{"text":"a"}\nno\n{"text":"bc"}\n'), file('b.jsonl', 'no\n')];
    const options = { inputs, outputPrefix: join(directory, 'out'), tokenizer };
    await expect(prepareDataset(options)).rejects.toMatchObject(corpusError(/a\.jsonl, line 2/));
    const summary = await prepareDataset({ ...options, skipBadLines: true });
    expect(summary).toMatchObject({
      numDocuments: 2,
      numBadLines: 2,
      firstBadLine: corpusError(/a\.jsonl, line 2: is not JSON/),
    });
    using dataset = IndexedDataset.open(summary.prefix);
    expect(dataset.numTokens).toBe(3);
  });

  it('refuses a corpus of nothing but bad lines: its key is wrong', async () => {
    const inputs = [file('a.jsonl', '{"body":"a"}\n{"body":"b"}\n')];
    const options = { inputs, outputPrefix: join(directory, 'out'), skipBadLines: true };
    await expect(
      prepareDataset({ ...options, tokenizer: { type: 'ByteLevelTokenizer' } }),
    ).rejects.toMatchObject({
      ...corpusError(/line 1: has no key "text"/),
      remedy: expect.stringContaining('"body"'),
    });
    expect(readdirSync(directory)).toEqual(['a.jsonl']);
  });
});

describe('readLineBatches', () => {
  /** Returns the lines of all batches, and the number of lines in each batch. */
  async function readBatches(options: Parameters<typeof readLineBatches>[0]) {
    const batches: number[] = [];
    const lines: (readonly [number, string])[] = [];
    for await (const batch of readLineBatches(options)) {
      batches.push(batch.length);
      for (const { number, text } of batch) lines.push([number, text]);
    }
    return { batches, lines };
  }

  it('passes over all but the first of many empty lines, and counts them', async () => {
    // the text is longer than one chunk of the file
    const path = file('a.txt', `first\r\n${'\n'.repeat(1_500_000)}\r\n\r\n  \nlast`);
    const { lines } = await readBatches({ path, joinsEmptyLines: true });
    // each line is from a different chunk
    expect(lines).toEqual([
      [1, 'first'],
      [2, ''],
      ...lines.slice(2, -2),
      [1_500_004, '  '],
      [1_500_005, 'last'],
    ]);
    expect(lines.length).toBeLessThan(8);
    const text = await read(path);
    expect(text).toEqual(['first', 'last']);
  });

  it('joins all lines of a chunk, and names the one that is bad', async () => {
    const path = file('a.txt', '\ufeffa\r\n\nb\r\r\nc');
    expect((await readBatches({ path, joinsLines: true })).lines).toEqual([
      [1, 'a\n\nb\r'],
      [4, 'c'],
    ]);
    const bad = file('b.txt', Buffer.from(`${'ok\n'.repeat(600_000)}\xff\nend`, 'latin1'));
    const batches = readBatches({ path: bad, joinsLines: true });
    await expect(batches).rejects.toMatchObject(corpusError(/line 600001: is not UTF-8/));
  });

  it('gives the lines before a bad one', async () => {
    const path = file('a.txt', Buffer.from('a\nb\n\xff\n', 'latin1'));
    const reader = readLineBatches({ path });
    expect((await reader.next()).value).toEqual([
      { text: 'a', number: 1 },
      { text: 'b', number: 2 },
    ]);
    await expect(reader.next()).rejects.toMatchObject(corpusError(/line 3: is not UTF-8/));
  });
});

it('names the columns of Parquet that hold texts', async () => {
  const path = file(
    'a.parquet',
    new Uint8Array(
      parquetWriteBuffer({
        columnData: [
          { name: 'id', data: [1] },
          { name: 'content', data: ['a'] },
        ],
      }),
    ),
  );
  for (const jsonKey of ['text', 'id']) {
    await expect(readDocuments({ path, jsonKey }).next()).rejects.toMatchObject({
      expected: 'a column of texts; the file has "content"',
      remedy: 'choose the column of the text, for example "content"',
      details: { keys: ['content'], nearestKey: 'content' },
    });
  }
});
