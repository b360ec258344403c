import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compatibleVersion } from './support/compatibility/compatible-version.js';
import { type InterfaceNames, interfaceNames } from './support/compatibility/interface-names.js';
import { fixtureFiles, type ReadFiles, readFiles } from './support/compatibility/read-files.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const folder = fileURLToPath(new URL('../fixtures/compatibility/', import.meta.url));

const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

/** Returns the names that no longer exist. */
const missing = (before: readonly string[], now: readonly string[]): string[] =>
  before.filter((name) => !now.includes(name));

it('the present version has its files (npm run dev -- compatibility)', () => {
  expect(readdirSync(folder)).toContain(compatibleVersion);
});

describe.each(readdirSync(folder))('files and names of version %s', (version) => {
  const directory = temporaryDirectory();
  const before = process.cwd();
  const expected = JSON.parse(
    readFileSync(`${folder}${version}/${fixtureFiles.expected}`, 'utf8'),
  ) as ReadFiles & { readonly names: InterfaceNames };
  let read: ReadFiles;

  beforeAll(async () => {
    // as users do: paths in the files are relative to the working directory
    cpSync(`${folder}${version}`, directory.path, { recursive: true });
    process.chdir(directory.path);
    read = await readFiles();
  });
  afterAll(() => {
    process.chdir(before);
    directory.dispose();
  });

  it('loads weights, optimizer state and progress of the checkpoint, bit by bit', () => {
    expect(read.tensors).toEqual(expected.tensors);
    expect(read.progress).toEqual(expected.progress);
  });

  it('reads the tokens and the order of samples, from the cached indices and from new ones', () => {
    expect(read.dataset).toEqual(expected.dataset);
    expect(read.samples).toEqual(expected.samples);
    expect(read.samples.built).toBe(read.samples.cached);
    expect(read.indexMessages).toEqual([]);
  });

  it('reads the values of the configuration file', () => {
    expect(read.configuration).toMatchObject(expected.configuration);
  });

  it('reads the record of the run and its metrics', () => {
    expect(read.record).toEqual(expected.record);
    expect(read.lastStep).toEqual(expected.lastStep);
    expect(read.lastValidation).toEqual(expected.lastValidation);
  });

  // other processors add up in another order: the loaded state is compared bit by bit, losses are not
  it('continues the training run with the same samples, learning rates and losses', () => {
    const withoutLoss = ({ lm_loss: _, ...record }: ReadFiles['resumed'][number]) => record;
    expect(asJson(read.resumed.map(withoutLoss))).toEqual(expected.resumed.map(withoutLoss));
    read.resumed.forEach(({ lm_loss }, index) => {
      expect(Math.abs(lm_loss / expected.resumed[index]!.lm_loss - 1)).toBeLessThan(1e-5);
    });
  });

  it('writes every key that it wrote into metrics.jsonl and run.json', () => {
    for (const kind of ['step', 'validation', 'start'] as const) {
      expect(expected.keys[kind].length).toBeGreaterThan(0);
      expect(missing(expected.keys[kind], read.keys[kind]), kind).toEqual([]);
    }
  });

  it('has every flag, and every documented error code and environment variable, that it had', () => {
    const now = interfaceNames();
    for (const kind of ['trainingFlags', 'commandFlags', 'codes'] as const) {
      expect(missing(expected.names[kind], now[kind]), kind).toEqual([]);
    }
  });
});
