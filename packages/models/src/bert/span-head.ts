import {
  biasDropoutResidual,
  gatherRows,
  linear,
  type Parameter,
  reshape,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import type { TaskTokenBatch } from '@mtl/data/tasks';
import { Tensor } from '@mtl/kernels';
import { type BertHeadOptions, headLinear, type LinearParameters } from './head-linear.js';
import type { TaskTargets } from './task-batch-to-device.js';
import type { TaskHead, TaskHeadCall } from './task-head.js';

/** What padding gets added to its logits: nothing is left of it in a softmax, and every dtype can hold it. */
const outOfReach = -30_000;

/**
 * Spans: two logits for every token, how much it looks like the first and like the last one of the answer
 * (Devlin et al. 2018, section 4.2). Padding takes no part, so that losses do not depend on its length.
 */
export class SpanHead implements TaskHead {
  readonly parameters: readonly Parameter[];
  readonly #output: LinearParameters;

  constructor(options: BertHeadOptions) {
    this.#output = headLinear('span_head', [2, options.model.hiddenSize], options);
    this.parameters = [this.#output.weight, this.#output.bias];
  }

  /** The starts [B] and then the ends [B], each with half the loss factor: a sample's loss is their mean. */
  static targets(batch: TaskTokenBatch, lossFactor: number): TaskTargets {
    const { batchSize, startPositions, endPositions } = batch;
    const labels = new Int32Array(2 * batchSize);
    const weights = new Float32Array(2 * batchSize);
    if (startPositions !== undefined && endPositions !== undefined) {
      labels.set(startPositions);
      labels.set(endPositions, batchSize);
      weights.fill(lossFactor / 2);
    }
    return { labels, weights };
  }

  /** [2 * R * S, 1, 1], which folds to [2 * R, S]: of all rows the starts, then the ends. */
  logits(tape: Tape, { batch, rows }: TaskHeadCall): Variable {
    const { numRows: r, sequenceLength: s, lengths, starts } = batch;
    const { device } = batch.samples.tensor;
    // constants of one operation each, on a tape that releases them
    const indices = (values: Int32Array): Variable =>
      tape.input(Tensor.from(values, { shape: [values.length], dtype: 'int32', device }));
    // padding is nowhere: it takes any hidden state, and no part
    const byRow = Int32Array.from({ length: r * s }, (_, index) => {
      const [row, position] = [Math.floor(index / s), index % s];
      return position < lengths[row]! ? starts[row]! + position : 0;
    });
    const hidden = rows(indices(byRow));
    const pairs = linear(tape, { input: hidden, ...this.#output });
    const startsThenEnds = Int32Array.from(
      { length: 2 * r * s },
      (_, index) => (index % (r * s)) * 2 + Math.floor(index / (r * s)),
    );
    const logits = gatherRows(tape, {
      input: reshape(tape, { input: pairs, shape: [2 * r * s, 1, 1] }),
      indices: indices(startsThenEnds),
    });
    if (lengths.every((length) => length >= s)) return logits;
    const penalties = Array.from({ length: 2 * r * s }, (_, index) =>
      index % s < lengths[Math.floor(index / s) % r]! ? 0 : outOfReach,
    );
    const { dtype } = logits.tensor;
    const residual = tape.input(Tensor.from(penalties, { shape: [2 * r * s, 1, 1], dtype, device }));
    return biasDropoutResidual(tape, { input: logits, residual });
  }
}
