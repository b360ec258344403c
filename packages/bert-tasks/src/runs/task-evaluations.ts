import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonValue } from '@mtl/checkpoint';
import { broadcastJson } from '@mtl/comm';
import { createBatchLoader, type TaskDataset } from '@mtl/data';
import { batchAxis, type ShareOfBatch, type TaskTokenBatch } from '@mtl/layout';
import type { TaskLoss } from '@mtl/models';
import type { Pipeline } from '@mtl/pipeline';
import type { TrainingProcesses } from '@mtl/runs';
import type { EvaluatedLoss } from '@mtl/trainer';
import {
  type EpochResult,
  readSeedResult,
  resultPath,
  type SeedResult,
  type SetResult,
  writeResult,
} from './fine-tuning-results.js';
import type { IndexRange, OpenedTask, TaskSet } from './tasks.js';

interface TaskEvaluationsOptions {
  readonly seed: number;
  /** The folder of the seed; undefined if nothing is saved. */
  readonly directory: string | undefined;
  readonly task: OpenedTask;
  readonly processes: TrainingProcesses;
  /** The options for evaluating a set with the model. */
  readonly evaluate: Omit<EvaluateTaskSetOptions, 'set' | 'processes'>;
  /** True if the seed continues from the state in its folder. */
  readonly resume: boolean;
  readonly onEpoch: (result: EpochResult) => void;
}

/**
 * Evaluates the model of a seed: computes scores after every epoch and predictions after the last epoch, and
 * writes both to a file. All ranks must call its methods.
 */
export class TaskEvaluations {
  readonly #options: TaskEvaluationsOptions;
  #epochs: readonly EpochResult[];
  #predictions: readonly string[] = [];

  /**
   * @param options.iteration the iteration from which the seed resumes; results of later epochs, from an
   *   earlier start, are dropped
   */
  constructor(options: TaskEvaluationsOptions & { readonly iteration: number }) {
    this.#options = options;
    this.#epochs = (leftBehind(options)?.epochs ?? []).filter(
      (epoch) => epoch.iteration <= options.iteration,
    );
  }

  result({ isDone }: { readonly isDone: boolean }): SeedResult {
    return { seed: this.#options.seed, epochs: this.#epochs, predictions: this.#predictions, isDone };
  }

  /** Scores all labelled sets after an epoch, and returns their mean loss. */
  async afterEpoch(at: { readonly epoch: number; readonly iteration: number }): Promise<EvaluatedLoss> {
    const { task, onEpoch } = this.#options;
    const sets: Record<string, SetResult> = {};
    const files: string[] = [];
    for (const set of task.valid) {
      const { loss, predictions } = await this.#evaluate(set);
      sets[set.name] = { loss: loss!, ...set.metrics(predictions) };
      files.push(...this.#write(set, predictions));
    }
    const result = { ...at, sets };
    this.#epochs = [...this.#epochs.filter((one) => one.epoch < at.epoch), result];
    this.#predictions = files;
    this.#writeResult({ isDone: false });
    onEpoch(result);
    const losses = Object.values(sets).map(({ loss }) => loss);
    return { loss: losses.reduce((sum, loss) => sum + loss, 0) / losses.length, tokenLosses: [] };
  }

  /** If the seed is done, predicts the unlabelled sets. Writes the seed's results. */
  async atEnd({ isDone }: { readonly isDone: boolean }): Promise<void> {
    for (const set of isDone ? this.#options.task.test : []) {
      const { predictions } = await this.#evaluate(set);
      this.#predictions = [...this.#predictions, ...this.#write(set, predictions)];
    }
    this.#writeResult({ isDone });
  }

  #evaluate(set: TaskSet) {
    const { evaluate, processes } = this.#options;
    return evaluateTaskSet({ ...evaluate, set, processes });
  }

  /** Writes predictions on the first rank, and returns the paths of the files; other ranks return none. */
  #write(set: TaskSet, predictions: Parameters<TaskSet['write']>[0]): readonly string[] {
    const { directory: folder, processes } = this.#options;
    if (folder === undefined || !processes.isFirst) return [];
    const directory = join(folder, 'predictions');
    mkdirSync(directory, { recursive: true });
    return set.write(predictions, directory);
  }

  #writeResult(how: { readonly isDone: boolean }): void {
    const { directory, processes } = this.#options;
    if (processes.isFirst && directory !== undefined) writeResult(resultPath(directory), this.result(how));
  }
}

/**
 * Returns, on all ranks, the results of an earlier start of the run. Only the first rank reads the file,
 * because other ranks may have separate storage.
 */
function leftBehind({ directory, processes, resume }: TaskEvaluationsOptions): SeedResult | undefined {
  if (directory === undefined || !resume) return undefined;
  return processes.agree(processes.isFirst ? readSeedResult(resultPath(directory)) : undefined);
}

interface EvaluateTaskSetOptions {
  readonly set: TaskSet;
  readonly pipeline: Pipeline<TaskTokenBatch>;
  readonly processes: TrainingProcesses;
  readonly microBatchSize: number;
  /**
   * The number of micro-batches that pass through the pipeline together. The schedule must support this
   * number.
   */
  readonly numMicroBatches: number;
  /** True if micro-batches are truncated to their longest row (see `withoutPadding`). */
  readonly isCut: boolean;
}

/** A model's predictions for a set. */
interface EvaluatedTaskSet {
  /** Mean loss over the samples, in nats; undefined without labels. */
  readonly loss: number | undefined;
  /** The prediction for each example. */
  readonly predictions: readonly JsonValue[];
}

/** The predictions for a section of a set, computed by the ranks that have one share of the batch. */
interface PartOfSet {
  readonly lossSum: number;
  readonly predictions: readonly JsonValue[];
}

/**
 * Predicts all examples of a set. Ranks with the same share of the batch compute one contiguous section of
 * the set together. Every process must call it, and receives the same result.
 */
async function evaluateTaskSet(options: EvaluateTaskSetOptions): Promise<EvaluatedTaskSet> {
  const { set, processes } = options;
  const { pp, [batchAxis]: shares } = processes.groups;
  const { index, count } = processes.shareOfBatch;
  const all = Array.from({ length: count }, (_, each) => ({
    from: Math.floor((set.numExamples * each) / count),
    to: Math.floor((set.numExamples * (each + 1)) / count),
  }));
  const here = await evaluatePart(options, { own: all[index]!, all });
  const part = pp === undefined ? here : broadcastJson(pp, here, { root: options.pipeline.lastRank });
  const parts =
    shares === undefined
      ? [part]
      : Array.from({ length: count }, (_, root) => broadcastJson(shares, part, { root }));
  const lossSum = parts.reduce((sum, one) => sum + one.lossSum, 0);
  return {
    loss: set.hasLabels ? lossSum / set.dataset.length : undefined,
    predictions: parts.flatMap(({ predictions }) => predictions),
  };
}

/** Returns the predictions on the rank with the head; other ranks have no logits and return none. */
async function evaluatePart(
  options: EvaluateTaskSetOptions,
  { own, all }: { readonly own: IndexRange; readonly all: readonly IndexRange[] },
): Promise<PartOfSet> {
  const { set, pipeline, microBatchSize, numMicroBatches } = options;
  const results: { readonly lossSum: number; readonly logits: readonly Float32Array[] }[] = [];
  const samples = set.findSamples(own);
  const size = numMicroBatches * microBatchSize;
  // ranks that shard parameters gather values together, so all ranks run the same number of forward passes:
  // enough for the rank with the most samples
  const numRounds = Math.max(...all.map((part) => Math.ceil(countSamples(set.findSamples(part)) / size)));
  for (let round = 0; round < numRounds; round++) {
    const from = samples.from + round * size;
    const to = Math.max(from, Math.min(from + size, samples.to));
    const ranges = splitRange({ from, to }, microBatchSize);
    const before = results.length;
    // the schedule needs a complete set of micro-batches, so missing micro-batches are filled with a sample
    const first = to > from ? from : 0;
    const filled = Array.from(
      { length: numMicroBatches },
      (_, index) => ranges[index] ?? { from: first, to: first + 1 },
    );
    pipeline.evaluate({
      batches: filled.map((range) => fillBatch(options, range)),
      lossFactors: { task_loss: 1 },
      // losses arrive in the order of the schedule, which may differ from the order of the samples
      onLoss: (loss, microBatch) => {
        const range = ranges[microBatch];
        if (range === undefined || loss.name !== 'task_loss') return;
        // the last stage of a task always returns a TaskLoss
        const task = loss as TaskLoss;
        results[before + microBatch] = {
          lossSum: weightedSum(task),
          logits: logitsOfSamples(task, range.to - range.from),
        };
      },
    });
    // lets heartbeats and signals be handled
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (!pipeline.isLast) return { lossSum: 0, predictions: [] };
  return {
    lossSum: results.reduce((sum, { lossSum }) => sum + lossSum, 0),
    predictions: set.predict(
      own,
      results.flatMap(({ logits }) => logits),
    ),
  };
}

const countSamples = ({ from, to }: IndexRange): number => to - from;

/** Splits a range into ranges of at most `size`. */
function splitRange({ from, to }: IndexRange, size: number): IndexRange[] {
  return Array.from({ length: Math.ceil((to - from) / size) }, (_, index) => {
    const first = from + index * size;
    return { from: first, to: Math.min(first + size, to) };
  });
}

function fillBatch({ set, isCut }: EvaluateTaskSetOptions, { from, to }: IndexRange): TaskTokenBatch {
  const { dataset } = set;
  const batch = dataset.createBatch(to - from);
  for (let sample = from; sample < to; sample++) dataset.fillRow({ sample, batch, row: sample - from });
  const finished = dataset.finishBatch(batch);
  return isCut ? withoutPadding(finished) : finished;
}

/** Returns the logits of each sample: a row, or the start logits followed by the end logits. */
function logitsOfSamples({ logits }: TaskLoss, numSamples: number): Float32Array[] {
  const values = logits.read<'float32'>();
  const [numRows, width] = logits.shape as [number, number];
  return Array.from({ length: numSamples }, (_, sample) => {
    const own = new Float32Array((numRows / numSamples) * width);
    for (let row = sample, at = 0; row < numRows; row += numSamples, at += width)
      own.set(values.subarray(row * width, (row + 1) * width), at);
    return own;
  });
}

function weightedSum({ losses, weights }: TaskLoss): number {
  const [values, factors] = [losses.read<'float32'>(), weights.read<'float32'>()];
  return values.reduce((sum, value, index) => sum + value * factors[index]!, 0);
}

// S: sequence length. R: number of rows in a micro-batch.

interface TaskBatchesOptions {
  readonly dataset: TaskDataset;
  readonly seed: number;
  readonly consumedSamples: number;
  readonly globalBatchSize: number;
  readonly microBatchSize: number;
  readonly shareOfBatch: ShareOfBatch;
  /** True if micro-batches are truncated to their longest row (see `withoutPadding`). */
  readonly isCut: boolean;
}

/** A stream of micro-batches that can be closed. */
export interface TaskBatches extends AsyncIterator<TaskTokenBatch, undefined> {
  close(): Promise<void>;
}

/**
 * Returns this rank's micro-batches, epoch after epoch, each epoch in a different order. Samples are numbered
 * by their position in the training run, so dropout masks differ between epochs.
 */
export function taskBatches(options: TaskBatchesOptions): TaskBatches {
  const { dataset, globalBatchSize, isCut, ...sampler } = options;
  const { microBatchSize } = sampler;
  const { index, count } = sampler.shareOfBatch;
  const loader = createBatchLoader<TaskTokenBatch>({
    dataset,
    sampler: { kind: 'cyclic', ...sampler, epochMultiple: globalBatchSize },
  });
  let first = sampler.consumedSamples + index * microBatchSize;
  return {
    next: async () => {
      const next = await loader.next();
      if (next.done === true) return next;
      const sampleNumbers = Float64Array.from({ length: microBatchSize }, (_, row) => first + row);
      first += microBatchSize * count;
      const value = { ...next.value, sampleNumbers };
      return { done: false, value: isCut ? withoutPadding(value) : value };
    },
    return: () => loader.return!(),
    close: () => loader.close(),
  };
}

/**
 * Returns a micro-batch truncated to its longest row, so that a head with a logit for every token computes no
 * logits for padding. (Layers never compute padding.) The sequence is the first dimension of the tokens, so
 * truncation copies no data.
 */
function withoutPadding(batch: TaskTokenBatch): TaskTokenBatch {
  const sequenceLength = batch.lengths.reduce((most, length) => Math.max(most, length), 0);
  const size = sequenceLength * batch.lengths.length;
  return {
    ...batch,
    sequenceLength,
    tokens: batch.tokens.subarray(0, size),
    tokenTypes: batch.tokenTypes.subarray(0, size),
  };
}
