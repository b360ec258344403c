import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ModelKind, RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { numberInRuns } from '@mtl/tooling/in-whole-runs';
import { expect } from 'vitest';
import type { TrainGptArgument, TrainGptResult } from '../ranks/train-gpt.js';
import { preparedCorpus } from './prepared-corpus.js';
import { preparedSentences } from './prepared-sentences.js';
import { runProcesses } from './run-processes.js';
import { WaitingRanks } from './waiting-ranks.js';

const rankProgram = new URL('../ranks/train-gpt.ts', import.meta.url);

/**
 * The ranks of all test files in this process. They start once, and run compiled code from the second file
 * on; the process ends them. They keep no state of a training run.
 */
const ranks = new WaitingRanks<readonly TrainGptArgument[], TrainGptResult[]>(rankProgram);

/** A model with dropout 0.1 that learns in 24 steps of 8 samples. */
const small: RunOptions = {
  preset: 'none',
  model: {
    numLayers: 2,
    hiddenSize: 32,
    numAttentionHeads: 4,
    maxPositionEmbeddings: 32,
    attentionDropout: 0.1,
    hiddenDropout: 0.1,
  },
  data: { sequenceLength: 32, split: '90,10,0' },
  training: {
    // fast runs take half of the passes per step; layouts of whole runs need all micro-batches
    microBatchSize: numberInRuns({ whole: 1, fast: 2 }),
    globalBatchSize: 8,
    trainIterations: 24,
    evalIterations: 1,
    evalInterval: 8,
  },
  optimizer: {
    maxLearningRate: 5e-3,
    learningRateDecayStyle: 'cosine',
    learningRateDecayIterations: 24,
    clipGrad: 1,
  },
  logging: { logInterval: 1, noEvalSamples: true },
  layout: { threads: 1 },
};

const recipes: Readonly<Record<ModelKind, RunOptions>> = {
  gpt: mergeOptions(small, { data: { eodMaskLoss: true } }),
  bert: mergeOptions(small, { model: { kind: 'bert' } }),
};

export interface Training {
  readonly name: string;
  /** Options that replace the recipe's options; `undefined` removes an option. */
  readonly options?: RunOptions;
  /** The options of single ranks, which replace the common options. */
  readonly optionsOfRank?: TrainGptArgument['optionsOfRank'];
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
  /** The loss of the order of sentences, only of a BERT. */
  readonly sop_loss?: number;
  readonly total_loss?: number;
};

export const listNumbers = (lines: readonly Line[]): number[][] =>
  lines.map(({ lm_loss, grad_norm }) => [lm_loss, grad_norm]);

// the bounds of parity between layouts (packages/runs/parity/layouts.mjs)
export const tolerances = {
  fp32: { loss: 2e-6, norm: 2e-5 },
  bf16: { loss: 2e-3, norm: 2e-2 },
};

/** Returns every validation loss of a rank, evaluation by evaluation; for a BERT both losses. */
export const validationLosses = (output: string): number[] =>
  (output.match(/validation loss at iteration .*/g) ?? []).flatMap((line) =>
    [...line.matchAll(/loss value: (\S+)/g)].map(([, value]) => Number(value)),
  );

/** Returns the largest relative difference of validation losses, which are printed with seven digits. */
export function validationDifference(output: string, expected: string): number {
  const [actual, reference] = [validationLosses(output), validationLosses(expected)];
  expect(reference.length).toBeGreaterThan(0);
  expect(actual.length).toBe(reference.length);
  return Math.max(...actual.map((loss, index) => Math.abs(loss / reference[index]! - 1)));
}

/** Largest difference of two losses from printing: half of the seventh digit, twice. */
export const printedTwice = 1e-6;

/** Training runs of a small model in one directory, on any number of ranks, each with a name. */
export class TrainingRuns {
  readonly #directory: string;
  readonly #recipe: RunOptions;

  private constructor(directory: string, recipe: RunOptions) {
    this.#directory = directory;
    this.#recipe = recipe;
  }

  /** Prepares a corpus. @param options options of all training runs, which replace the small recipe */
  static async create(options: RunOptions = {}, model: ModelKind = 'gpt'): Promise<TrainingRuns> {
    const directory = mkdtempSync(join(tmpdir(), 'mtl-recipes-'));
    const corpus = await (model === 'bert' ? preparedSentences(directory) : preparedCorpus(directory));
    return new TrainingRuns(directory, mergeOptions(recipes[model], options, corpus));
  }

  locate(name: string): string {
    return join(this.#directory, name);
  }

  /** Trains one after the other on the same ranks; returns results by training run, then by rank. */
  async run(worldSize: number, trainings: readonly Training[]): Promise<TrainGptResult[][]> {
    const results = await ranks.run(worldSize, this.#makeArguments(trainings));
    return trainings.map((_, index) => results.map((ofRank) => ofRank[index]!));
  }

  /** Does as `run`, with processes instead of threads and shared memory instead of messages. */
  async runInProcesses(worldSize: number, trainings: readonly Training[]): Promise<TrainGptResult[][]> {
    const results = await runProcesses<TrainGptResult[]>({
      worldSize,
      module: rankProgram,
      argument: this.#makeArguments(trainings),
    });
    return trainings.map((_, index) => results.map((ofRank) => ofRank[index]!));
  }

  /** Returns all records of a run's metrics. */
  readRecords(name: string): (Line & { readonly type?: string; readonly [key: string]: unknown })[] {
    const text = readFileSync(`${this.locate(name)}.jsonl`, 'utf8');
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
  }

  readMetrics(name: string): Line[] {
    return this.readRecords(name).filter(({ type }) => type === undefined);
  }

  /**
   * Returns the largest relative differences of loss and gradient norm between two runs, step by step. With
   * `stopped`, it compares only the steps of the stopped run.
   */
  differences(
    name: string,
    expected: string,
    { stopped = false } = {},
  ): { readonly loss: number; readonly norm: number } {
    const [actual, whole] = [this.readMetrics(name), this.readMetrics(expected)];
    const reference = stopped ? whole.slice(0, actual.length) : whole;
    expect(actual.map(({ iteration }) => iteration)).toEqual(reference.map(({ iteration }) => iteration));
    const largest = (key: 'lm_loss' | 'grad_norm'): number =>
      Math.max(...actual.map((line, index) => Math.abs(line[key] / reference[index]![key] - 1)));
    return { loss: largest('lm_loss'), norm: largest('grad_norm') };
  }

  /** Expects the losses and gradient norms of another run, step by step, within the bounds of layouts. */
  expectSame(name: string, expected: string, precision: keyof typeof tolerances = 'fp32'): void {
    const { loss, norm } = this.differences(name, expected);
    expect(loss, `loss of ${name}`).toBeLessThan(tolerances[precision].loss);
    expect(norm, `norm of ${name}`).toBeLessThan(tolerances[precision].norm);
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #makeArguments(trainings: readonly Training[]): TrainGptArgument[] {
    return trainings.map(({ name, options = {}, optionsOfRank = {}, isRestart = false, ...others }) => ({
      isRestart,
      optionsOfRank,
      job: others.job,
      spike: others.spike,
      wrongOnce: others.wrongOnce,
      slowRank: others.slowRank,
      options: mergeOptions(
        this.#recipe,
        {
          checkpoint: { save: this.locate(name) },
          logging: { metricsJsonl: `${this.locate(name)}.jsonl` },
        },
        options,
      ),
    }));
  }
}
