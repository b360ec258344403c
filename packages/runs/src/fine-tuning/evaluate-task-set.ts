import type { JsonValue } from '@mtl/checkpoint';
import { broadcastJson } from '@mtl/comm/internal';
import type { TaskTokenBatch } from '@mtl/data/tasks';
import type { TaskLoss } from '@mtl/models';
import type { Pipeline } from '@mtl/pipeline';
import type { TrainingProcesses } from '@mtl/run-parts';
import { withoutPadding } from './task-batches.js';
import type { IndexRange, TaskSet } from './task-set.js';

export interface EvaluateTaskSetOptions {
  readonly set: TaskSet;
  readonly pipeline: Pipeline<TaskTokenBatch>;
  readonly processes: TrainingProcesses;
  readonly microBatchSize: number;
  /** That go through the pipeline at a time: a number that its schedule fits. */
  readonly numMicroBatches: number;
  /** Whether micro-batches end with their longest row (`withoutPadding`). */
  readonly isCut: boolean;
}

/** A model's predictions for a set. */
export interface EvaluatedTaskSet {
  /** Mean over the samples, in nats; undefined without labels. */
  readonly loss: number | undefined;
  /** One for each example. */
  readonly predictions: readonly JsonValue[];
}

/** A data-parallel rank's predictions for its part. */
interface PartOfSet {
  readonly lossSum: number;
  readonly predictions: readonly JsonValue[];
}

/**
 * Predicts all examples of a set, each data-parallel rank a contiguous part of them. Every process calls it,
 * and gets the same.
 */
export async function evaluateTaskSet(options: EvaluateTaskSetOptions): Promise<EvaluatedTaskSet> {
  const { set, processes } = options;
  const { dp, pp } = processes.groups;
  const [rank, size] = [dp?.rank ?? 0, dp?.size ?? 1];
  const own = {
    from: Math.floor((set.numExamples * rank) / size),
    to: Math.floor((set.numExamples * (rank + 1)) / size),
  };
  const here = await evaluatePart(options, own);
  const part = pp === undefined ? here : broadcastJson(pp, here, { root: options.pipeline.lastRank });
  const parts =
    dp === undefined ? [part] : Array.from({ length: size }, (_, root) => broadcastJson(dp, part, { root }));
  const lossSum = parts.reduce((sum, one) => sum + one.lossSum, 0);
  return {
    loss: set.hasLabels ? lossSum / set.dataset.length : undefined,
    predictions: parts.flatMap(({ predictions }) => predictions),
  };
}

/** The predictions of the rank with the head; others have no logits, and return none. */
async function evaluatePart(options: EvaluateTaskSetOptions, own: IndexRange): Promise<PartOfSet> {
  const { set, pipeline, microBatchSize, numMicroBatches } = options;
  const results: { readonly lossSum: number; readonly logits: readonly Float32Array[] }[] = [];
  const samples = set.samplesOf(own);
  const size = numMicroBatches * microBatchSize;
  for (let from = samples.from; from < samples.to; from += size) {
    const ranges = rangesOf({ from, to: Math.min(from + size, samples.to) }, microBatchSize);
    const before = results.length;
    // the schedule wants all of its micro-batches: the first sample stands in for those that are missing
    const filled = Array.from(
      { length: numMicroBatches },
      (_, index) => ranges[index] ?? { from, to: from + 1 },
    );
    pipeline.evaluate({
      batches: filled.map((range) => batchOf(options, range)),
      lossFactors: { task_loss: 1 },
      // in the order of the schedule, which need not be that of the samples
      onLoss: (loss, microBatch) => {
        const range = ranges[microBatch];
        if (range === undefined || loss.name !== 'task_loss') return;
        // the last stage of a task makes it
        const task = loss as TaskLoss;
        results[before + microBatch] = {
          lossSum: weightedSum(task),
          logits: logitsOfSamples(task, range.to - range.from),
        };
      },
    });
    // heartbeats and signals get their turn
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

/** Pieces of a range of at most `size`. */
function rangesOf({ from, to }: IndexRange, size: number): IndexRange[] {
  return Array.from({ length: Math.ceil((to - from) / size) }, (_, index) => {
    const first = from + index * size;
    return { from: first, to: Math.min(first + size, to) };
  });
}

function batchOf({ set, isCut }: EvaluateTaskSetOptions, { from, to }: IndexRange): TaskTokenBatch {
  const { dataset } = set;
  const batch = dataset.createBatch(to - from);
  for (let sample = from; sample < to; sample++) dataset.fillRow({ sample, batch, row: sample - from });
  const finished = dataset.finishBatch(batch);
  return isCut ? withoutPadding(finished) : finished;
}

/**
 * What belongs to each sample: one row of logits, or those of its start and of its end one behind the other.
 */
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
