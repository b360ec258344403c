import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { configure, describeGptModel, type RunOptions } from '@mtl/configuration';
import { mergeOptions, smallRun } from '@mtl/configuration/testing';
import { TrainingError } from '@mtl/errors';
import {
  compareExpertLoads,
  compareRuns,
  findRunDirectory,
  listRuns,
  type RunStart,
  readRun,
  readRunRecord,
  removeRun,
  runRecordPath,
  writeRunRecord,
} from '@mtl/run-records';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { datasetFingerprint } from '../data-changes/fingerprints.js';
import { resolvedFlags } from './begin-reports.js';
import { RunLog, type StartRunOptions } from './run-log.js';

let directory: string;
let prefix: string;
let printed: string[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-runs-'));
  prefix = join(directory, 'data');
  writeFileSync(`${prefix}.idx`, 'an index');
  writeFileSync(`${prefix}.bin`, Buffer.alloc(1 << 20, 1));
  printed = [];
});
afterEach(() => rmSync(directory, { recursive: true }));

const locate = (name: string): string => join(directory, 'runs', name);

function start(name: string, options: Partial<StartRunOptions> & { readonly run?: RunOptions } = {}): RunLog {
  const { run = {}, ...others } = options;
  return RunLog.start({
    directory: locate(name),
    configuration: configure(mergeOptions(smallRun, run)),
    datasets: () => [datasetFingerprint(prefix)],
    threads: { count: 2, reason: 'as --threads says' },
    iteration: 0,
    onMessage: (text) => printed.push(text),
    ...others,
  })!;
}

const metrics = (name: string, losses: readonly (number | null)[]): void => {
  mkdirSync(locate(name), { recursive: true });
  for (const [index, loss] of losses.entries()) {
    const line = JSON.stringify({ iteration: index + 1, lm_loss: loss });
    appendFileSync(join(locate(name), 'metrics.jsonl'), `${line}\n`);
  }
};

describe('the record of a run', () => {
  it('keeps samples of the model', () => {
    const log = start('a');
    for (const iteration of [5, 7])
      log.sample({
        iteration,
        label: 'A sample',
        text: 'A sample:\nTo be\nor',
        prompt: 'To be',
        completion: '\nor',
      });
    const lines = readFileSync(join(locate('a'), 'samples.jsonl'), 'utf8')
      .trimEnd()
      .split('\n');
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      {
        iteration: 5,
        time: expect.stringMatching(/^\d{4}-/),
        label: 'A sample',
        text: 'A sample:\nTo be\nor',
        prompt: 'To be',
        completion: '\nor',
      },
      { iteration: 7 },
    ]);
  });

  it('keeps every start with its conditions, and how it ended', () => {
    start('a').end({ reason: 'exit-interval', iteration: 5 });
    start('a', { iteration: 5 }).fail(
      new TrainingError('MTL_NO_DATA', 'no token', { remedy: 'add tokens' }),
      { iteration: 7 },
    );
    start('a', { iteration: 5 });
    const { starts } = readRunRecord(locate('a'))!;
    expect(starts.map(({ iteration, end }) => [iteration, end?.reason, end?.iteration, end?.error])).toEqual([
      [0, 'exit-interval', 5, undefined],
      [5, 'failed', 7, 'MTL_NO_DATA: no token'],
      [5, undefined, undefined, undefined],
    ]);
    expect(starts.map(({ end }) => end?.remedy)).toEqual([undefined, 'add tokens', undefined]);
    expect(starts[0]).toMatchObject({
      pid: process.pid,
      command: process.argv,
      workingDirectory: process.cwd(),
      trainIterations: 100,
      model: 'gpt',
      flags: { 'num-layers': 4 },
      device: 'cpu',
      threads: { count: 2 },
      versions: { node: process.versions.node, mtl: expect.stringMatching(/^\d+\./) },
      layout: { worldSize: 1, tensor: 1, pipeline: 1, data: 1 },
      datasets: [{ prefix, idxBytes: 8, binBytes: 1 << 20 }],
    });
    expect(readdirSync(locate('a'))).toEqual(['run.json']);
  });

  it('has the commit of the code that the process runs: git is asked once', () => {
    start('a');
    const { PATH: path } = process.env;
    process.env.PATH = '';
    try {
      start('a');
    } finally {
      process.env.PATH = path;
    }
    const [first, second] = readRunRecord(locate('a'))!.starts;
    expect(first!.commit).toMatch(/^[0-9a-f]{40}(-dirty)?$/);
    expect(second!.commit).toBe(first!.commit);
  });

  it('has over how many processes experts are spread, where there are some', () => {
    const layout = { worldSize: 1, tensor: 1, pipeline: 1, data: 1, expert: 1, expertTensor: 1 };
    start('a', { run: { model: { disableBiasLinear: true, numExperts: 4 } } });
    expect(readRunRecord(locate('a'))!.starts[0]!.layout).toEqual(layout);
  });

  it.each([
    ['torn', '{"format":"mtl-run"'],
    ['of another version', '{"format":"mtl-run","version":2,"starts":[]}'],
  ])('that is %s is refused, and moved aside by the next start', async (_, text) => {
    const path = runRecordPath(locate('a'));
    mkdirSync(locate('a'), { recursive: true });
    writeFileSync(path, text);
    await expect(readRun(locate('a'))).rejects.toMatchObject({ code: 'MTL_RUN_RECORD', exitCode: 2 });
    start('a');
    expect(readRunRecord(locate('a'))!.starts).toHaveLength(1);
    expect(readFileSync(`${path}.1`, 'utf8')).toBe(text);
    expect(printed).toEqual([expect.stringContaining(`moved to ${path}.1`)]);
  });

  it('is left alone at the end by a run whose folder another one has taken over', () => {
    const first = start('a');
    rmSync(runRecordPath(locate('a')));
    start('a', { run: { training: { seed: 9 } } });
    const text = readFileSync(runRecordPath(locate('a')), 'utf8');
    // the start times distinguish two starts of the same process
    const other = JSON.parse(text);
    other.starts[0].time = '2026-11-22T00:00:00.000Z';
    writeFileSync(runRecordPath(locate('a')), JSON.stringify(other));
    first.end({ reason: 'done', iteration: 1 });
    expect(JSON.parse(readFileSync(runRecordPath(locate('a')), 'utf8'))).toEqual(other);
  });

  it('is made again where the folder vanished', () => {
    const log = start('a');
    rmSync(locate('a'), { recursive: true });
    log.end({ reason: 'done', iteration: 1 });
    expect(readRunRecord(locate('a'))!.starts[0]!.end).toMatchObject({ reason: 'done' });
  });

  it('that cannot be written is a coded error', () => {
    mkdirSync(join(locate('a'), 'run.json.new'), { recursive: true });
    expect(() => start('a')).toThrow(expect.objectContaining({ code: 'MTL_RUN_RECORD', exitCode: 1 }));
  });
});

it('tells datasets of the same size apart by samples', () => {
  const before = datasetFingerprint(prefix);
  expect(datasetFingerprint(prefix)).toEqual(before);
  for (const position of [0, (1 << 20) - 1]) {
    const bytes = Buffer.alloc(1 << 20, 1);
    bytes[position] = 2;
    writeFileSync(`${prefix}.bin`, bytes);
    expect(datasetFingerprint(prefix).sampledSha256).not.toBe(before.sampledSha256);
  }
});

describe('the state of a run', () => {
  const readState = async (name: string): Promise<string> => (await readRun(locate(name))).state;

  it.each([
    ['done', 'finished'],
    ['SIGTERM', 'stopped'],
    ['exit-interval', 'stopped'],
    ['failed', 'failed'],
  ])('whose last start ended with %s is %s', async (reason, state) => {
    start('a').end({ reason: 'done', iteration: 1 });
    start('a').end({ reason, iteration: 2 });
    expect(await readState('a')).toBe(state);
  });

  it('is running while a process owns the folder, and failed once that is killed', async () => {
    start('a');
    const owned = await OwnedDirectory.own({ directory: locate('a') });
    expect(await readState('a')).toBe('running');
    // simulates kill -9: the owning process no longer runs, and the record has no end
    const record = join(locate('a'), 'run_owner.1', 'owner.json');
    const owner = JSON.parse(readFileSync(record, 'utf8'));
    writeFileSync(record, JSON.stringify({ ...owner, processStart: '1' }));
    expect(await readState('a')).toBe('failed');
    await owned.release();
  });

  it('is unknown without a record', async () => {
    metrics('a', [2]);
    expect(await readState('a')).toBe('unknown');
  });
});

describe('listRuns', () => {
  it('finds runs by record, metrics or checkpoints, with their last losses and sizes', async () => {
    start('b').end({ reason: 'done', iteration: 2 });
    metrics('b', [3, 2.5]);
    appendFileSync(
      join(locate('b'), 'metrics.jsonl'),
      '{"type":"validation","iteration":2,"lm_loss":4}\n{"iter',
    );
    mkdirSync(join(locate('a'), 'iter_0000005'), { recursive: true });
    mkdirSync(locate('no-run'));
    const runs = await listRuns(join(directory, 'runs'));
    expect(
      runs.map(({ name, state, step, validation }) => [name, state, step?.lm_loss, validation?.lm_loss]),
    ).toEqual([
      ['a', 'unknown', undefined, undefined],
      ['b', 'finished', 2.5, 4],
    ]);
    expect(runs[1]!.bytes).toBeGreaterThan(4096);
    expect((await listRuns(locate('b'))).map(({ name }) => name)).toEqual(['b']);
  });

  it('finds the last evaluation before many steps', async () => {
    mkdirSync(locate('a'), { recursive: true });
    const step = `${JSON.stringify({ iteration: 7, lm_loss: 1, padding: 'x'.repeat(1000) })}\n`;
    const text = `{"type":"validation","iteration":1,"lm_loss":4}\n${step.repeat(3000)}`;
    writeFileSync(join(locate('a'), 'metrics.jsonl'), text);
    expect(await readRun(locate('a'))).toMatchObject({ validation: { lm_loss: 4 }, step: { iteration: 7 } });
  });

  it("has BERT's masked loss of a run of an older version, whose lm_loss was the total", async () => {
    mkdirSync(locate('a'), { recursive: true });
    const losses = { iteration: 1, lm_loss: 7.5, mlm_loss: 7, sop_loss: 0.5 };
    const lines = [losses, { ...losses, type: 'validation' }].map((line) => JSON.stringify(line));
    writeFileSync(join(locate('a'), 'metrics.jsonl'), `${lines.join('\n')}\n`);
    const expected = { lm_loss: 7, sop_loss: 0.5, total_loss: 7.5 };
    expect(await readRun(locate('a'))).toMatchObject({ validation: expected, step: expected });
  });

  it('refuses what is not there, and what is no run', async () => {
    const none = { code: 'MTL_RUN_NONE', exitCode: 2 };
    await expect(listRuns(join(directory, 'nowhere'))).rejects.toMatchObject(none);
    expect(() => findRunDirectory(directory)).toThrow(expect.objectContaining(none));
  });
});

describe('compareRuns', () => {
  const compare = async () => compareRuns([await readRun(locate('a')), await readRun(locate('b'))]);

  it('names flags and conditions that differ, and where losses part', async () => {
    start('a', { run: { training: { seed: 1 } } });
    start('b', { run: { training: { seed: 2 } }, threads: { count: 1, reason: '' } });
    metrics('a', [4, 3, 2, 1]);
    metrics('b', [4, 3.5, null]);
    const { flags, conditions, losses } = await compare();
    expect(flags).toEqual([{ name: 'seed', values: [1, 2] }]);
    expect(conditions).toEqual([{ name: 'threads', values: [2, 1] }]);
    expect(losses).toEqual({
      commonSteps: 3,
      firstDifference: 2,
      validation: undefined,
      largest: { iteration: 2, relative: Math.abs(3 / 3.5 - 1) },
      last: { iteration: 3, losses: [2, null] },
    });
  });

  it('finds no difference between equal runs', async () => {
    for (const name of ['a', 'b']) {
      start(name);
      metrics(name, [4, 3]);
    }
    const { losses, ...others } = await compare();
    expect(others).toEqual({ flags: [], conditions: [], experts: undefined });
    expect(losses).toMatchObject({ commonSteps: 2, firstDifference: undefined, largest: undefined });
  });
});

describe('compareRuns of mixtures of experts', () => {
  const layers = ['decoder.layers.0.mlp', 'decoder.layers.1.mlp', 'decoder.layers.2.mlp'];

  /**
   * Writes a run with a loss for each step, and with the loads of three layers at equal intervals of steps.
   */
  function write(name: string, losses: readonly number[], loads: readonly (readonly number[][])[]): void {
    start(name);
    const steps = losses.length / loads.length;
    const lines = losses.flatMap((lm_loss, index) => {
      const iteration = index + 1;
      const report = { type: 'experts', iteration, steps, layers, loads: loads[iteration / steps - 1] };
      return [{ iteration, lm_loss }, ...(iteration % steps === 0 ? [report] : [])];
    });
    writeFileSync(
      join(locate(name), 'metrics.jsonl'),
      lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
    );
  }

  const compare = async () =>
    (await compareRuns([await readRun(locate('a')), await readRun(locate('b'))])).experts;
  const even = [
    [4, 4, 4],
    [6, 3, 3],
    [5, 5, 2],
  ];
  const moved = [
    [4, 4, 4],
    [5, 3, 4],
    [2, 7, 3],
  ];

  it('finds the step, the layers and the tokens where these took other experts', async () => {
    write('a', [4, 3, 2, 1], [even, even, even, even]);
    write('b', [4, 3.000003, 2.002, 1.5], [even, even, moved, even]);
    expect(await compare()).toEqual({
      commonReports: 4,
      firstDifference: {
        firstStep: 3,
        lastStep: 3,
        layers: [
          { layer: layers[1], numChoices: 1 },
          { layer: layers[2], numChoices: 3 },
        ],
        largestBefore: expect.closeTo(1e-6, 9) as number,
        largestAfter: expect.closeTo(1 / 3, 9) as number,
      },
    });
  });

  it('compares the losses of more steps than a call has arguments', () => {
    const run = (loads: readonly (readonly number[])[]) => [
      { type: 'experts', iteration: 200_001, lm_loss: null, steps: 1, layers, loads },
    ];
    const losses = Array.from({ length: 400_000 }, (_, index) => ({ iteration: index + 1, relative: index }));
    expect(compareExpertLoads([run(even), run(moved)], losses)).toMatchObject({
      firstDifference: { firstStep: 200_001, largestBefore: 199_999, largestAfter: 399_999 },
    });
  });

  it('tells the steps of a report of several, and that loads are equal', async () => {
    write('a', [4, 3, 2, 1], [even, even]);
    write('b', [4, 3, 2, 1], [even, even]);
    expect(await compare()).toEqual({ commonReports: 2, firstDifference: undefined });
    write('b', [4, 3, 2, 1], [moved, moved]);
    expect(await compare()).toMatchObject({
      firstDifference: { firstStep: 1, lastStep: 2, largestBefore: undefined, largestAfter: 0 },
    });
  });

  it('compares no loads of other steps, other experts or other layers', async () => {
    write('a', [4, 3, 2, 1], [even, even]);
    write('b', [4, 3, 2, 1], [even]);
    expect(await compare()).toBeUndefined();
    write('b', [4, 3, 2, 1], [moved.slice(1), moved.slice(1)]);
    expect(await compare()).toBeUndefined();
  });
});

describe('compareRuns of a resumed run', () => {
  const compare = async () => compareRuns([await readRun(locate('a')), await readRun(locate('b'))]);

  /** Starts a log with the flags in effect, as training runs do. */
  function startResolved(name: string, run: RunOptions, iteration = 0): void {
    const configuration = configure(mergeOptions(smallRun, run));
    const model = describeGptModel(configuration.model, 257);
    const path = run.data?.tokenizerModel;
    const options =
      path === undefined ? undefined : ({ type: 'HuggingFaceTokenizer', tokenizerModel: path } as const);
    const resolved = resolvedFlags({ configuration, model, tokenizer: { options } });
    start(name, { configuration: { ...configuration, resolved }, iteration });
  }

  /** Options of a model and a run, as a checkpoint would set them. */
  const ofCheckpoint: RunOptions = {
    model: { headSize: 16, ffnHiddenSize: 256, numQueryGroups: 4, geluKind: 'tanh' },
    training: { globalBatchSize: 2, exitInterval: 5 },
    optimizer: { learningRateDecayIterations: 100 },
    checkpoint: { load: 'somewhere' },
    layout: { threads: 1 },
    logging: { metricsJsonl: 'copy' },
  };

  it('finds no difference where values follow from other flags in one run', async () => {
    startResolved('a', {});
    startResolved('b', ofCheckpoint, 50);
    expect(await compare()).toMatchObject({ flags: [], conditions: [] });
  });

  it('tells once that one trains for more steps, and the length of its decay', async () => {
    startResolved('a', { optimizer: { learningRateDecayIterations: 100 } });
    startResolved('b', {
      training: { trainIterations: 200 },
      optimizer: { learningRateDecayIterations: 100 },
    });
    expect(await compare()).toMatchObject({
      flags: [{ name: 'train-iters', values: [100, 200] }],
      conditions: [],
    });
  });

  it('compares files by their content', async () => {
    const paths = ['one', 'copy', 'other'].map((name) => join(directory, `${name}.json`));
    paths.forEach((path, index) => {
      writeFileSync(path, index === 2 ? '{"other": 1}' : '{}');
    });
    const run = (path: string): RunOptions => ({
      data: { tokenizerType: 'HuggingFaceTokenizer', tokenizerModel: path },
    });
    startResolved('a', run(paths[0]!));
    startResolved('b', run(paths[1]!));
    expect((await compare()).flags).toEqual([]);
    startResolved('b', run(paths[2]!));
    expect((await compare()).flags).toEqual([{ name: 'tokenizer-model', values: [paths[0], paths[2]] }]);
  });

  it('names the weights that each began with', async () => {
    startResolved('a', {});
    startResolved('b', { checkpoint: { loadHuggingFace: 'weights' } });
    startResolved('b', { checkpoint: { load: 'b' } }, 5);
    expect((await compare()).flags).toEqual([{ name: 'load-hf', values: [undefined, 'weights'] }]);
  });

  it('compares with a run of an older version what both tell', async () => {
    start('a', { run: { model: { headSize: 16 }, training: { seed: 2 } } });
    startResolved('b', {});
    const record = readRunRecord(locate('a'))!;
    const [{ resolved: _, contents: __, ...old }] = record.starts as [RunStart];
    writeRunRecord(locate('a'), { ...record, starts: [old] });
    expect((await compare()).flags).toEqual([{ name: 'seed', values: [2, 1234] }]);
  });
});

describe('removeRun', () => {
  it('deletes what the run wrote, and the folder', async () => {
    start('a').sample({ iteration: 1, label: '', text: 'To be' });
    metrics('a', [1]);
    mkdirSync(join(locate('a'), 'iter_0000001'));
    writeFileSync(join(locate('a'), 'latest_checkpointed_iteration.txt'), '1');
    expect(await removeRun(locate('a'))).toEqual({ left: [] });
    expect(existsSync(locate('a'))).toBe(false);
  });

  it('leaves what no run wrote', async () => {
    start('a');
    writeFileSync(join(locate('a'), 'notes.txt'), 'mine');
    expect(await removeRun(locate('a'))).toEqual({ left: ['notes.txt'] });
    expect(readdirSync(locate('a'))).toEqual(['notes.txt']);
  });

  it('refuses a run under way, and deletes nothing', async () => {
    start('a');
    const owned = await OwnedDirectory.own({ directory: locate('a') });
    await expect(removeRun(locate('a'))).rejects.toMatchObject({ code: 'MTL_RUN_RUNNING', exitCode: 2 });
    expect(existsSync(runRecordPath(locate('a')))).toBe(true);
    await owned.release();
  });
});
