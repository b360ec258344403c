import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { IndexedDataset, IndexedDatasetWriter, prepareDataset, readDocuments } from '../index.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-files-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Creates a FIFO without a writer and returns its path. Opening it without special flags waits forever. */
function fifo(name: string): string {
  const path = join(directory, name);
  execFileSync('mkfifo', [path]);
  return path;
}

describe('a FIFO in place of a file', () => {
  const first = async (name: string) => {
    for await (const document of readDocuments({ path: fifo(name) })) return document;
    return undefined;
  };
  const dataset = (name: 'a.bin' | 'a.idx') => {
    const writer = new IndexedDatasetWriter({ prefix: join(directory, 'a'), dtype: 'uint16' });
    writer.addSequence([1]);
    writer.endDocument();
    writer.finish();
    rmSync(join(directory, name));
    fifo(name);
    return IndexedDataset.open(join(directory, 'a'));
  };
  const readers: Record<string, () => unknown> = {
    'plain text': () => first('a.txt'),
    'JSON lines': () => first('a.jsonl'),
    'zipped JSON lines': () => first('a.jsonl.gz'),
    Parquet: () => first('a.parquet'),
    'a corpus to prepare': () =>
      prepareDataset({
        inputs: [fifo('a.txt')],
        outputPrefix: join(directory, 'out'),
        tokenizer: { type: 'ByteLevelTokenizer' },
      }),
    'an .idx file': () => dataset('a.idx'),
    'a .bin file': () => dataset('a.bin'),
  };

  it.each(Object.keys(readers))('is a coded error at once: %s', async (name) => {
    await expect(async () => readers[name]!()).rejects.toMatchObject({
      code: expect.stringMatching(/^MTL_DATA_/),
      message: expect.stringMatching(/not a regular file/),
    });
  });
});
