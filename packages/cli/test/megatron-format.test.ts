import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readMegatronDataset } from './support/read-megatron-dataset.js';
import { spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
const cwd = directory.path;
afterAll(() => directory.dispose());

async function mtl(...argv: string[]): Promise<void> {
  const { status, stderr } = await spawnMtl(argv, { cwd });
  expect(stderr).toBe('');
  expect(status).toBe(0);
}

/** A corpus of ids: with the NullTokenizer its words are the tokens that must come out. */
const documents = [[5, 0, 17], [], [65_498], [3, 3, 3, 3, 3], []];

const readFiles = (prefix: string): { idx: Buffer; bin: Buffer } => ({
  idx: readFileSync(join(cwd, `${prefix}.idx`)),
  bin: readFileSync(join(cwd, `${prefix}.bin`)),
});

beforeAll(() => {
  const lines = documents.map((tokens) => JSON.stringify({ text: tokens.join(' ') }));
  writeFileSync(join(cwd, 'ids.jsonl'), `${lines.join('\n')}\n`);
});

describe.each([65_499, 65_500])(
  "what mtl data prepare writes for %i tokens is Megatron's format",
  (vocabularySize) => {
    const prefix = `v${vocabularySize}`;
    const tokenizer = ['--tokenizer-type', 'NullTokenizer', '--vocab-size', String(vocabularySize)];
    const end = vocabularySize - 1;
    const expected = documents.map((tokens) => (tokens.length === 0 ? [] : [[...tokens, end]]));

    beforeAll(async () => {
      await mtl(
        'data',
        'prepare',
        '--input',
        'ids.jsonl',
        '--output-prefix',
        prefix,
        ...tokenizer,
        '--append-eod',
      );
    });

    it('to an independent reader', () => {
      expect(readMegatronDataset({ ...readFiles(`${prefix}_text_document`), vocabularySize })).toEqual(
        expected,
      );
    });

    it('after a merge as well', async () => {
      const input = [`${prefix}_text_document`, `${prefix}_text_document`];
      await mtl('data', 'merge', '--input', ...input, '--output-prefix', `${prefix}-twice`);
      expect(readMegatronDataset({ ...readFiles(`${prefix}-twice`), vocabularySize })).toEqual([
        ...expected,
        ...expected,
      ]);
    });
  },
);

describe('the independent reader', () => {
  const vocabularySize = 65_499;
  const read = (files: { idx: Buffer; bin: Buffer }) => readMegatronDataset({ ...files, vocabularySize });
  // 3 sequences, 6 document boundaries: lengths from 34, pointers from 46, boundaries from 70, 118 bytes in
  // all
  const lowBytesOfIntegers = [9, 17, 18, 26, 34, 38, 42, 46, 54, 62, 70, 110];

  it('refuses an index in which one number is one more', () => {
    const { idx, bin } = readFiles('v65499_text_document');
    expect(idx.length).toBe(118);
    for (const position of lowBytesOfIntegers) {
      const changed = Buffer.from(idx);
      changed[position]! += 1;
      expect(() => read({ idx: changed, bin }), `byte ${position}`).toThrow("not Megatron's format");
    }
  });

  it('refuses files that are longer or shorter', () => {
    const { idx, bin } = readFiles('v65499_text_document');
    const more = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc(2)]);
    for (const files of [
      { idx: more(idx), bin },
      { idx: idx.subarray(0, -8), bin },
      { idx, bin: more(bin) },
      { idx, bin: bin.subarray(0, -2) },
    ]) {
      expect(() => read(files)).toThrow("not Megatron's format");
    }
  });
});
