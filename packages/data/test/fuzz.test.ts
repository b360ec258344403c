import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MtlError } from '@mtl/errors';
import { mutateBytes, Random } from '@mtl/tooling/mutations';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  IndexedDataset,
  IndexedDatasetWriter,
  openGptDataset,
  readDocuments,
  verifyIndexedDataset,
} from '../src/index.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-data-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const interesting = new URL('../fixtures/fuzz/', import.meta.url);

/** Runs a user's operation; the outcome must be a result or a coded error. Returns the code, or 'works'. */
async function outcome(run: () => unknown): Promise<string> {
  try {
    await run();
    return 'works';
  } catch (error) {
    if (MtlError.isInstance(error)) return error.code;
    throw error;
  }
}

function useIndex(prefix: string): void {
  using dataset = IndexedDataset.open(prefix);
  for (let sequence = 0; sequence < dataset.numSequences; sequence++) dataset.sequence(sequence);
  for (let document = 0; document < dataset.numDocuments; document++) dataset.documentSequences(document);
  verifyIndexedDataset({ prefix, vocabularySize: 1000 });
  const options = {
    prefix,
    split: 'train',
    sequenceLength: 4,
    seed: 1,
    numSamples: 20,
    cacheDirectory: false,
  } as const;
  using samples = openGptDataset(options);
  for (let sample = 0; sample < Math.min(20, samples.length); sample++) samples.sample(sample);
}

describe('mutated .idx files', () => {
  const prefix = join(directory, 'dataset');
  let valid: Uint8Array;
  beforeAll(() => {
    const writer = new IndexedDatasetWriter({ prefix, dtype: 'uint16' });
    for (const length of [5, 3, 0, 7, 4]) {
      if (length > 0) writer.addSequence(Array.from({ length }, (_, i) => i));
      writer.endDocument();
    }
    writer.finish();
    valid = readFileSync(`${prefix}.idx`);
  });

  it('work or raise a coded error, without wild allocations', async () => {
    const random = new Random('datasets');
    const before = process.memoryUsage().arrayBuffers;
    const codes = new Map<string, number>();
    for (let i = 0; i < 600; i++) {
      writeFileSync(`${prefix}.idx`, mutateBytes(valid, random));
      const code = await outcome(() => useIndex(prefix));
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
    expect([...codes.keys()].sort()).toEqual(expect.arrayContaining(['MTL_DATA_INDEXED_DATASET']));
    expect(codes.get('MTL_DATA_INDEXED_DATASET')).toBeGreaterThan(400);
    // The files have some hundred bytes: even the garbage of all rounds, if none is collected, is far below
    // this.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(256 * 2 ** 20);
  });

  it.each(readdirSync(interesting).filter((name) => name.endsWith('.idx')))(
    '%s raises a coded error',
    async (name) => {
      writeFileSync(`${prefix}.idx`, readFileSync(new URL(name, interesting)));
      expect(await outcome(() => useIndex(prefix))).toMatch(/^MTL_DATA_/);
    },
  );
});

describe('mutated corpora', () => {
  it('work or raise a coded error', async () => {
    const lines = Array.from({ length: 20 }, (_, i) => `{"text":"document ${i} ✓","n":${i}}\n`).join('');
    const random = new Random('corpora');
    const path = join(directory, 'corpus.jsonl');
    for (let i = 0; i < 300; i++) {
      writeFileSync(path, mutateBytes(new TextEncoder().encode(lines), random));
      const run = async () => {
        for await (const document of readDocuments({ path })) expect(typeof document).toBe('string');
      };
      expect(await outcome(run)).toMatch(/^(works|MTL_DATA_CORPUS)$/);
    }
  });
});
