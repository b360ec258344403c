import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { IndexedDataset, IndexedDatasetWriter } from '@mtl/data';
import { afterAll, describe, expect, it } from 'vitest';
import { type TrainOptions, train } from '../training/train.js';
import { contentsOfFlags } from './contents-of-flags.js';
import { changedFiles, dataChanges } from './data-changes.js';
import { datasetFingerprint, datasetFingerprints, taskDataFingerprint } from './fingerprints.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-changed-data-'));
afterAll(() => rmSync(directory, { recursive: true }));
const locate = (name: string): string => join(directory, name);

const tiny = {
  preset: 'none',
  model: { numLayers: 1, hiddenSize: 32, numAttentionHeads: 2, maxPositionEmbeddings: 32 },
  optimizer: { maxLearningRate: 1e-3 },
  layout: { threads: 1 },
  logging: { noEvalSamples: true },
} as const satisfies TrainOptions;

const line = (index: number, answer = `${index} apples`): string =>
  JSON.stringify({
    messages: [
      { role: 'user', content: `${index}?` },
      { role: 'assistant', content: answer },
    ],
  });
const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => 10 + index);

/** Trains until `exitInterval`, or to the end. Returns the run's output. */
async function run(options: TrainOptions, exitInterval?: number): Promise<string> {
  const told: string[] = [];
  const write = (text: string): boolean => told.push(text) > 0;
  const training = { ...options.training, ...(exitInterval === undefined ? {} : { exitInterval }) };
  await using opened = await train({ ...tiny, ...options, training, stream: { write } });
  await opened.run();
  return told.join('');
}

const order = 'the order of samples differs from the first run';

describe('conversations that changed before a resume', () => {
  writeFileSync(
    locate('chat.jinja'),
    "{% for m in messages %}{{ m.role[0] + ':' + m.content + eos_token }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}",
  );
  const options = (name: string): TrainOptions => ({
    data: {
      trainData: [locate(`${name}.jsonl`)],
      chatTemplate: locate('chat.jinja'),
      tokenizerType: 'ByteLevelTokenizer',
      sequenceLength: 32,
      epochs: 2,
    },
    training: { microBatchSize: 1, globalBatchSize: 2, evalIterations: 0 },
    checkpoint: { save: locate(name), load: locate(name) },
  });
  /** Writes the given lines to a file of conversations. */
  const write = (name: string, lines: readonly string[]): void =>
    writeFileSync(locate(`${name}.jsonl`), `${lines.join('\n')}\n`);

  it('are named: lines in another order, and an edited answer', async () => {
    const lines = numbers(8).map((index) => line(index));
    write('changed', lines);
    const unchanged = await run(options('changed'), 2);
    const formatNote = (
      iteration: string,
    ): string => `  note: the data differ from ${locate('changed')}/${iteration}:
    ${locate('changed')}.jsonl: other content of the same size
  ${order}`;
    write('changed', [...lines].reverse());
    expect(await run(options('changed'), 4)).toContain(formatNote('iter_0000002'));
    write('changed', [line(17, '17 cherry'), ...[...lines].reverse().slice(1)]);
    expect(await run(options('changed'), 6)).toContain(formatNote('iter_0000004'));
    // the second start has recorded the new data, so the third start finds no change
    for (const told of [unchanged, await run(options('changed'))])
      expect(told).not.toContain('the data are not');
  });

  it('are the cause of another length, not flags of the schedule', async () => {
    write(
      'twice',
      numbers(8).map((index) => line(index)),
    );
    await run(options('twice'), 2);
    write(
      'twice',
      numbers(16).map((index) => line(index)),
    );
    const error = (await run(options('twice')).catch((cause: unknown) => cause)) as Error;
    expect(error).toMatchObject({ code: 'MTL_CHECKPOINT_SCHEDULE', exitCode: 2 });
    const { message } = error;
    expect(message).toContain('the data are not those that');
    expect(message).toMatch(/twice\.jsonl: 7\d\d -> 1,4\d\d bytes/);
    expect(message).toMatch(/ 2 is 16 steps in all, and was 8,/);
    expect(`${message} ${(error as { remedy?: string }).remedy}`).not.toMatch(/decay-?iters/i);
    // the caller chooses the schedule of a resumed run
    const told = await run(
      {
        ...options('twice'),
        checkpoint: { ...options('twice').checkpoint, overrideOptParamScheduler: true },
      },
      3,
    );
    expect(told).toContain(order);
  });

  it('may be rendered by another template', async () => {
    write(
      'template',
      numbers(8).map((index) => line(index)),
    );
    await run(options('template'), 2);
    const path = locate('chat.jinja');
    const before = readFileSync(path, 'utf8');
    writeFileSync(path, before.replaceAll(':', '>'));
    const told = await run(options('template'), 3).finally(() => writeFileSync(path, before));
    expect(told).toContain(`    --chat-template ${path}: other content\n  ${order}`);
  });
});

it('a dataset that gained a document is named, and one that was moved is not', async () => {
  const write = (name: string, documents: number): void => {
    const writer = new IndexedDatasetWriter({ prefix: locate(name), dtype: 'uint16' });
    for (let document = 0; document < documents; document++) {
      writer.addSequence(Array.from({ length: 100 }, (_, index) => (document + index) % 250));
      writer.endDocument();
    }
    writer.finish();
  };
  write('documents', 20);
  const save = locate('documents-run');
  const options = (name: string): TrainOptions => ({
    data: {
      dataPath: [locate(name)],
      tokenizerType: 'ByteLevelTokenizer',
      sequenceLength: 32,
      split: '1,0,0',
    },
    training: { microBatchSize: 1, globalBatchSize: 2, trainIterations: 6, evalIterations: 0 },
    checkpoint: { save, load: save },
  });
  await run(options('documents'), 2);
  write('moved', 20);
  expect(await run(options('moved'), 3)).not.toContain('the data are not those');
  write('moved', 21);
  expect(await run(options('moved'), 4)).toContain(`  note: the data differ from ${save}/iter_0000003:
    ${locate('moved')}.bin: 4,000 -> 4,200 bytes
    ${locate('moved')}.idx: 442 -> 462 bytes
  ${order}`);
  rmSync(join(save, 'run.json'));
  expect(await run(options('moved'), 5)).toContain(`  note: ${save} has no run.json: it is not known`);
  using dataset = IndexedDataset.open(locate('moved'));
  expect(dataset.numDocuments).toBe(21);
});

describe('fingerprints', () => {
  const change = (path: string, place: number): void => {
    const bytes = readFileSync(path);
    bytes[place] = bytes[place]! ^ 1;
    writeFileSync(path, bytes);
  };
  const workingDirectory = directory;

  it('notice one byte of a large file of conversations', () => {
    const path = locate('large.jsonl');
    writeFileSync(path, Buffer.alloc(2 ** 20, 'x'));
    const before = taskDataFingerprint(path, { isWhole: true });
    // the changed byte is between two of the sampled blocks
    change(path, 10_000);
    const now = taskDataFingerprint(path, { isWhole: true });
    expect(now.sampledSha256).toBe(before.sampledSha256);
    expect(dataChanges({ datasets: [before], workingDirectory }, [now])).toEqual([
      `${path}: other content of the same size`,
    ]);
    // a record of an older version has no checksum of all bytes, so the checksums of sampled bytes are
    // compared
    const { sha256: _, ...older } = before;
    expect(dataChanges({ datasets: [older], workingDirectory }, [now])).toEqual([]);
  });

  it('notice one byte of a large file that a flag names, but read models in samples', () => {
    const path = locate('tokenizer.json');
    writeFileSync(path, Buffer.alloc(2 ** 20, 'x'));
    mkdirSync(locate('model'), { recursive: true });
    writeFileSync(locate('model/weights'), Buffer.alloc(2 ** 20, 'x'));
    const resolved = {
      'tokenizer-model': path,
      'vocab-file': path,
      'merge-file': path,
      'chat-template': path,
      'validation-data': [path, locate('model')],
      'pipeline-schedule': path,
      'load-hf': locate('model'),
      'load-lora': locate('model'),
    };
    const files = Object.keys(resolved);
    const before = { ...contentsOfFlags(resolved), resolved, flags: resolved };
    for (const changed of [path, locate('model/weights')]) change(changed, 10_000);
    const now = { ...contentsOfFlags(resolved), resolved };
    expect(now.contents).toEqual(before.contents);
    expect(changedFiles(files, before, now)).toEqual(
      files
        .filter((flag) => flag !== 'load-hf' && flag !== 'load-lora')
        .map((flag) => `--${flag} ${[resolved[flag as 'vocab-file']].flat().join(' ')}: other content`),
    );
    // a record of an older version has no checksum of all bytes, so the checksums of sampled bytes are
    // compared
    const { contentsSha256: _, ...older } = before;
    expect(changedFiles(files, older, now)).toEqual([]);
    change(path, 0);
    expect(changedFiles(['vocab-file'], older, { ...contentsOfFlags(resolved), resolved })).toEqual([
      `--vocab-file ${path}: other content`,
    ]);
  });

  it('notice one token of small datasets, and do not read large ones whole', () => {
    const prefix = locate('small');
    writeFileSync(`${prefix}.idx`, 'an index');
    writeFileSync(`${prefix}.bin`, Buffer.alloc(2 ** 20, 1));
    const before = datasetFingerprints([prefix]);
    change(`${prefix}.bin`, 10_000);
    expect(dataChanges({ datasets: before, workingDirectory }, datasetFingerprints([prefix]))).toEqual([
      `${prefix}: other content of the same size`,
    ]);
    // a sparse file of 300 MiB, which takes no space on the disk
    writeFileSync(`${prefix}.bin`, '');
    truncateSync(`${prefix}.bin`, 300 * 2 ** 20);
    expect(datasetFingerprints([prefix])).toEqual([datasetFingerprint(prefix)]);
  });

  it('tell which files of several changed, came, went, and moved', () => {
    const datasets = ['a', 'b', 'c'].map((name) => {
      writeFileSync(locate(name), name);
      return taskDataFingerprint(locate(name), { isWhole: true });
    });
    const [a, b, c] = datasets as [(typeof datasets)[0], (typeof datasets)[0], (typeof datasets)[0]];
    const before = { datasets, workingDirectory };
    expect(dataChanges(before, [a, { ...b, path: 'elsewhere' }, c])).toEqual([]);
    // the same dataset, but with a path relative to a different working directory
    expect(
      dataChanges({ datasets: [{ ...a, path: 'a' }], workingDirectory }, [
        { ...a, sha256: 'other', bytes: 5 },
      ]),
    ).toEqual([`${locate('a')}: 1 -> 5 bytes`]);
    expect(dataChanges(before, [a, c])).toEqual([`${locate('b')}: no longer among the data`]);
    expect(dataChanges({ datasets: [a, b], workingDirectory }, datasets)).toEqual([
      `${locate('c')}: not among the data before`,
    ]);
    expect(dataChanges(before, [b, a, c])).toEqual([
      `the files are read in another order: ${[b, a, c].map(({ path }) => path).join(', ')}`,
    ]);
  });
});
