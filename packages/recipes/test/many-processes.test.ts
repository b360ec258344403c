import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { typescriptThreads } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TrainGptArgument, TrainGptResult } from './ranks/train-gpt.js';
import { prepareCorpus } from './support/prepare-corpus.js';
import { runProcesses } from './support/run-processes.js';

let directory: string;
let recipe: string[];

/** A GPT of two layers with dropout 0.1 that learns in 24 steps of 8 samples. */
const small = [
  ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '32', '--num-attention-heads', '4'],
  ...['--seq-length', '32', '--max-position-embeddings', '32', '--micro-batch-size', '1'],
  ...['--global-batch-size', '8', '--lr', '5e-3', '--lr-decay-style', 'cosine', '--lr-decay-iters', '24'],
  ...['--train-iters', '24', '--attention-dropout', '0.1', '--hidden-dropout', '0.1', '--clip-grad', '1'],
  ...['--eval-iters', '1', '--eval-interval', '8', '--log-interval', '1', '--split', '90,10,0'],
  ...['--threads', '1', '--eod-mask-loss'],
];

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-recipes-'));
  recipe = [...small, ...(await prepareCorpus(directory))];
  await run(1, [{ name: 'alone' }, { name: 'alone-bf16', flags: ['--bf16'] }]);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

interface Training {
  readonly name: string;
  readonly flags?: readonly string[];
  readonly isRestart?: boolean;
}

const pathOf = (name: string): string => join(directory, name);

const argumentsOf = (trainings: readonly Training[]): TrainGptArgument[] =>
  trainings.map(({ name, flags = [], isRestart = false }) => ({
    isRestart,
    flags: [
      ...without(recipe, flags),
      ...['--save', pathOf(name), '--metrics-jsonl', `${pathOf(name)}.jsonl`, ...flags],
    ],
  }));

/** Trains one after the other on the same ranks; results by training, then by rank. */
async function run(worldSize: number, trainings: readonly Training[]): Promise<TrainGptResult[][]> {
  const ranks = await runInMemoryRanks<TrainGptResult[]>({
    ...typescriptThreads,
    worldSize,
    module: new URL('./ranks/train-gpt.ts', import.meta.url),
    argument: argumentsOf(trainings),
    timeoutMs: 60_000,
  });
  return trainings.map((_, index) => ranks.map((results) => results[index]!));
}

/** As `run`, with processes in place of threads and shared memory in place of messages. */
async function runInProcesses(
  worldSize: number,
  trainings: readonly Training[],
): Promise<TrainGptResult[][]> {
  const ranks = await runProcesses<TrainGptResult[]>({
    worldSize,
    module: new URL('./ranks/train-gpt.ts', import.meta.url),
    argument: argumentsOf(trainings),
  });
  return trainings.map((_, index) => ranks.map((results) => results[index]!));
}

/** The recipe without the flags that are given. */
function without(words: readonly string[], given: readonly string[]): string[] {
  return words.filter((word, index) => !given.includes(word.startsWith('--') ? word : words[index - 1]!));
}

type Line = { readonly iteration: number; readonly lm_loss: number; readonly grad_norm: number };
const metricsOf = (name: string): Line[] =>
  readFileSync(`${pathOf(name)}.jsonl`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

const numbersOf = (lines: readonly Line[]): number[][] =>
  lines.map(({ lm_loss, grad_norm }) => [lm_loss, grad_norm]);

/** Largest relative differences of loss and gradient norm between two runs, step by step. */
function differences(name: string, expected: string) {
  const [actual, reference] = [metricsOf(name), metricsOf(expected)];
  expect(actual.map(({ iteration }) => iteration)).toEqual(reference.map(({ iteration }) => iteration));
  const largest = (key: 'lm_loss' | 'grad_norm'): number =>
    Math.max(...actual.map((line, index) => Math.abs(line[key] / reference[index]![key] - 1)));
  return { loss: largest('lm_loss'), norm: largest('grad_norm') };
}

const kinds = [
  { name: 'plain', flags: [] },
  { name: 'overlap', flags: ['--overlap-grad-reduce'] },
  { name: 'distributed', flags: ['--use-distributed-optimizer'] },
  {
    name: 'distributed-overlap',
    flags: ['--use-distributed-optimizer', '--overlap-grad-reduce', '--overlap-param-gather'],
  },
];
// design.md, section 5: parity between layouts
const tolerances = {
  fp32: { loss: 2e-6, norm: 2e-5 },
  bf16: { loss: 2e-3, norm: 2e-2 },
};

describe.each([2, 4])('a GPT on %d data-parallel ranks', (dp) => {
  it.each([
    { precision: 'fp32', alone: 'alone', flags: [] },
    { precision: 'bf16', alone: 'alone-bf16', flags: ['--bf16'] },
  ] as const)('trains as in one process: $precision', async ({ precision, alone, flags }) => {
    const reference = metricsOf(alone);
    expect(reference[0]!.lm_loss - reference.at(-1)!.lm_loss).toBeGreaterThan(0.5);
    const trainings = kinds.map((kind) => ({
      name: `${kind.name}-${precision}-${dp}`,
      flags: [...flags, ...kind.flags],
    }));
    const results = await run(dp, trainings);
    const first = metricsOf(trainings[0]!.name);
    for (const { name } of trainings) {
      const difference = differences(name, alone);
      expect(difference.loss).toBeLessThan(tolerances[precision].loss);
      expect(difference.norm).toBeLessThan(tolerances[precision].norm);
      // the same sums in the same order, whenever and wherever they are made
      expect(numbersOf(metricsOf(name))).toEqual(numbersOf(first));
    }
    for (const [first, ...others] of results) {
      expect(first!.output).toContain('validation loss at iteration 24');
      expect(first!.sample).toMatch(/^Line/);
      for (const { output } of others) expect(output).toBe('');
    }
  });
});

describe('a GPT on a mesh of tensor- and data-parallel ranks', () => {
  it.each([
    { tp: 2, dp: 1 },
    { tp: 2, dp: 2 },
    { tp: 4, dp: 1 },
  ])('trains as in one process: %o', async ({ tp, dp }) => {
    const size = ['--tensor-model-parallel-size', `${tp}`];
    const all = [...size, '--sequence-parallel', ...kinds.at(-1)!.flags];
    const trainings = [
      { name: `tp-${tp}-${dp}`, flags: size },
      { name: `tp-${tp}-${dp}-all`, flags: all },
    ];
    await run(tp * dp, trainings);
    for (const { name } of trainings) {
      const difference = differences(name, 'alone');
      expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
      expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
    }
  });
});

describe('a GPT in processes that share memory', () => {
  it.each([{ processes: 2 }, { processes: 4 }])('trains as on in-memory ranks: %o', async ({ processes }) => {
    const trainings = kinds.map((kind) => ({ name: `local-${kind.name}-${processes}`, flags: kind.flags }));
    await runInProcesses(processes, trainings);
    const first = metricsOf(trainings[0]!.name);
    for (const { name } of trainings) {
      const difference = differences(name, 'alone');
      expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
      expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
      expect(numbersOf(metricsOf(name))).toEqual(numbersOf(first));
    }
    // both engines add float32 in the order of the ranks
    await run(processes, [{ name: `memory-${processes}` }]);
    expect(numbersOf(first)).toEqual(numbersOf(metricsOf(`memory-${processes}`)));
  });

  it('trains on a mesh', async () => {
    const mesh = ['--tensor-model-parallel-size', '2', '--sequence-parallel', ...kinds.at(-1)!.flags];
    await runInProcesses(4, [{ name: 'local-mesh', flags: mesh }]);
    const difference = differences('local-mesh', 'alone');
    expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
    expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
  });
});

describe('checkpoints', () => {
  it('let a GPT go on in another layout, and are written for and read from Hugging Face in any', async () => {
    const [huggingFace, save] = [pathOf('hugging-face'), pathOf('moved')];
    const distributed = ['--use-distributed-optimizer', '--overlap-param-gather'];
    await run(4, [{ name: 'moved', flags: [...distributed, '--exit-interval', '8'] }]);
    await run(1, [{ name: 'moved', flags: ['--load', save, '--exit-interval', '12'] }]);
    await run(2, [{ name: 'moved', flags: ['--load', save, ...distributed, '--save-hf', huggingFace] }]);
    const difference = differences('moved', 'alone');
    expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
    expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
    const starting = ['--load-hf', huggingFace, '--train-iters', '2'];
    await run(1, [{ name: 'from-hf-alone', flags: starting }]);
    await run(2, [{ name: 'from-hf', flags: [...starting, ...distributed] }]);
    expect(differences('from-hf', 'from-hf-alone').loss).toBeLessThan(tolerances.fp32.loss);
    // ln 257 is 5.55: it goes on from what it has learnt
    expect(metricsOf('from-hf')[0]!.lm_loss).toBeLessThan(metricsOf('alone')[2]!.lm_loss);
  });

  it('change tensor parallelism in the middle of a run', async () => {
    const load = ['--load', pathOf('meshes')];
    const tensor = (size: number): string[] => ['--tensor-model-parallel-size', `${size}`];
    const distributed = [...tensor(2), '--use-distributed-optimizer', '--sequence-parallel'];
    await run(4, [{ name: 'meshes', flags: [...distributed, '--exit-interval', '8'] }]);
    await run(4, [{ name: 'meshes', flags: [...load, ...tensor(4), '--exit-interval', '16'] }]);
    await run(1, [{ name: 'meshes', flags: [...load] }]);
    const difference = differences('meshes', 'alone');
    expect(difference.loss).toBeLessThan(tolerances.fp32.loss);
    expect(difference.norm).toBeLessThan(tolerances.fp32.norm);
  });

  it('are gone on from by a training that was started again', async () => {
    const interrupted = ['--save-interval', '5'];
    await run(2, [{ name: 'restarted', flags: [...interrupted, '--exit-interval', '10'] }]);
    const [again] = await run(2, [{ name: 'restarted', flags: interrupted, isRestart: true }]);
    expect(again![0]!.output).toContain('iteration 10');
    await run(2, [{ name: 'undisturbed' }]);
    expect(numbersOf(metricsOf('restarted'))).toEqual(numbersOf(metricsOf('undisturbed')));
    const [begun] = await run(2, [{ name: 'never-saved', flags: ['--train-iters', '1'], isRestart: true }]);
    expect(begun![0]!.output).toContain('training begins again');
  });
});
