import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ModelKind } from '@mtl/configuration';
import { expect } from 'vitest';
import type { TrainGptArgument, TrainGptResult } from '../ranks/train-gpt.js';
import { prepareCorpus } from './prepare-corpus.js';
import { prepareSentences } from './prepare-sentences.js';
import { runProcesses } from './run-processes.js';
import { WaitingRanks } from './waiting-ranks.js';
import { withoutFlags } from './without-flags.js';

const rankProgram = new URL('../ranks/train-gpt.ts', import.meta.url);

/** A model with dropout 0.1 that learns in 24 steps of 8 samples. */
const small = [
  ...['--preset', 'none', '--num-layers', '2', '--hidden-size', '32', '--num-attention-heads', '4'],
  ...['--seq-length', '32', '--max-position-embeddings', '32', '--micro-batch-size', '1'],
  ...['--global-batch-size', '8', '--lr', '5e-3', '--lr-decay-style', 'cosine', '--lr-decay-iters', '24'],
  ...['--train-iters', '24', '--attention-dropout', '0.1', '--hidden-dropout', '0.1', '--clip-grad', '1'],
  ...['--eval-iters', '1', '--eval-interval', '8', '--log-interval', '1', '--split', '90,10,0'],
  ...['--threads', '1', '--no-eval-samples'],
];

const recipes: Readonly<Record<ModelKind, readonly string[]>> = {
  gpt: [...small, '--eod-mask-loss'],
  bert: small,
};

export interface Training {
  readonly name: string;
  readonly flags?: readonly string[];
  /** Flags of the recipe that this training run does not get. */
  readonly leftOut?: readonly string[];
  /** Flags of single ranks, in place of those of all. */
  readonly flagsOfRank?: TrainGptArgument['flagsOfRank'];
  readonly isRestart?: boolean;
  readonly job?: string;
  readonly spike?: TrainGptArgument['spike'];
  readonly wrongOnce?: TrainGptArgument['wrongOnce'];
  readonly slowRank?: TrainGptArgument['slowRank'];
}

export type Line = {
  readonly iteration: number;
  readonly lm_loss: number;
  readonly grad_norm: number;
  /** Of a BERT. */
  readonly sop_loss?: number;
  readonly total_loss?: number;
};

export const numbersOf = (lines: readonly Line[]): number[][] =>
  lines.map(({ lm_loss, grad_norm }) => [lm_loss, grad_norm]);

// the bounds of parity between layouts (packages/recipes/parity/layouts.mjs)
export const tolerances = {
  fp32: { loss: 2e-6, norm: 2e-5 },
  bf16: { loss: 2e-3, norm: 2e-2 },
};

/** Every validation loss that a rank wrote, evaluation by evaluation; of a BERT both of its losses. */
export const validationLosses = (output: string): number[] =>
  (output.match(/validation loss at iteration .*/g) ?? []).flatMap((line) =>
    [...line.matchAll(/loss value: (\S+)/g)].map(([, value]) => Number(value)),
  );

/** The largest relative difference of validation losses, each of which is printed with seven digits. */
export function validationDifference(output: string, expected: string): number {
  const [actual, reference] = [validationLosses(output), validationLosses(expected)];
  expect(reference.length).toBeGreaterThan(0);
  expect(actual.length).toBe(reference.length);
  return Math.max(...actual.map((loss, index) => Math.abs(loss / reference[index]! - 1)));
}

/** What two losses may differ by because they were printed: half of the seventh digit, twice. */
export const printedTwice = 1e-6;

/** Training runs of a small model in one directory, on any number of ranks, each with a name. */
export class TrainingRuns {
  readonly #directory: string;
  readonly #recipe: readonly string[];

  readonly #model: ModelKind;
  readonly #ranks = new WaitingRanks<readonly TrainGptArgument[], TrainGptResult[]>(rankProgram);

  private constructor(directory: string, recipe: readonly string[], model: ModelKind) {
    this.#directory = directory;
    this.#recipe = recipe;
    this.#model = model;
  }

  /** Prepares a corpus. @param flags of all training runs, in place of those of the small recipe */
  static async create(flags: readonly string[] = [], model: ModelKind = 'gpt'): Promise<TrainingRuns> {
    const directory = mkdtempSync(join(tmpdir(), 'mtl-recipes-'));
    const corpus = await (model === 'bert' ? prepareSentences(directory) : prepareCorpus(directory));
    return new TrainingRuns(directory, [...withoutFlags(recipes[model], flags), ...flags, ...corpus], model);
  }

  pathOf(name: string): string {
    return join(this.#directory, name);
  }

  /** Trains one after the other on the same ranks; results by training run, then by rank. */
  async run(worldSize: number, trainings: readonly Training[]): Promise<TrainGptResult[][]> {
    const ranks = await this.#ranks.run(worldSize, this.#argumentsOf(trainings));
    return trainings.map((_, index) => ranks.map((results) => results[index]!));
  }

  /** As `run`, with processes in place of threads and shared memory in place of messages. */
  async runInProcesses(worldSize: number, trainings: readonly Training[]): Promise<TrainGptResult[][]> {
    const ranks = await runProcesses<TrainGptResult[]>({
      worldSize,
      module: rankProgram,
      argument: this.#argumentsOf(trainings),
    });
    return trainings.map((_, index) => ranks.map((results) => results[index]!));
  }

  /** All records of a run. */
  recordsOf(name: string): (Line & { readonly type?: string; readonly [key: string]: unknown })[] {
    const text = readFileSync(`${this.pathOf(name)}.jsonl`, 'utf8');
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
  }

  metricsOf(name: string): Line[] {
    return this.recordsOf(name).filter(({ type }) => type === undefined);
  }

  /** Largest relative differences of loss and gradient norm between two runs, step by step. */
  differences(name: string, expected: string): { readonly loss: number; readonly norm: number } {
    const [actual, reference] = [this.metricsOf(name), this.metricsOf(expected)];
    expect(actual.map(({ iteration }) => iteration)).toEqual(reference.map(({ iteration }) => iteration));
    const largest = (key: 'lm_loss' | 'grad_norm'): number =>
      Math.max(...actual.map((line, index) => Math.abs(line[key] / reference[index]![key] - 1)));
    return { loss: largest('lm_loss'), norm: largest('grad_norm') };
  }

  async remove(): Promise<void> {
    await this.#ranks.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #argumentsOf(trainings: readonly Training[]): TrainGptArgument[] {
    return trainings.map(
      ({ name, flags = [], leftOut = [], flagsOfRank = {}, isRestart = false, ...others }) => ({
        isRestart,
        flagsOfRank,
        job: others.job,
        spike: others.spike,
        wrongOnce: others.wrongOnce,
        slowRank: others.slowRank,
        model: this.#model,
        flags: [
          ...withoutFlags(this.#recipe, [...flags, ...leftOut]),
          ...['--save', this.pathOf(name), '--metrics-jsonl', `${this.pathOf(name)}.jsonl`, ...flags],
        ],
      }),
    );
  }
}
