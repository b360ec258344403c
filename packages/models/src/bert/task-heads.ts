import {
  biasDropoutResidual,
  gatherRows,
  linear,
  type Parameter,
  reshape,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { Tensor } from '@mtl/kernels';
import type { TaskTokenBatch } from '@mtl/layout';
import { type BertHeadOptions, headLinear, type LinearParameters, Pooler } from './bert-heads.js';
import type { BertTask } from './bert-model.js';
import type { DeviceTaskBatch, TaskTargets } from './task-batch-to-device.js';

/** The inputs of a head, without its parameters. */
interface TaskHeadCall {
  readonly batch: DeviceTaskBatch;
  /**
   * Returns the hidden states [n, 1, H] of n packed tokens after the last layer norm. `indices` contains the
   * tokens' indices among the packed tokens.
   */
  rows(indices: Variable): Variable;
  /** Applies hidden dropout to [1, R, H]. */
  dropped(input: Variable): Variable;
}

/** A part of a model that computes the logits of a fine-tuning task from hidden states. */
interface TaskHead {
  readonly parameters: readonly Parameter[];
  /** Computes logits that can be reshaped to [N, V], where N is the number of labels in the batch. */
  logits(tape: Tape, call: TaskHeadCall): Variable;
}

/**
 * The head for classification and multiple choice: pooler, dropout and a linear layer. Classification has a
 * logit for each class. Multiple choice has a logit for each sequence, and a softmax over the sequences of a
 * sample (Devlin et al. 2018, sections 4.1 and 4.4). The linear layers have Megatron-LM's names. Only the
 * pooler's parameters may come from pretraining.
 */
export class PooledHead implements TaskHead {
  readonly parameters: readonly Parameter[];
  readonly #pooler: Pooler;
  readonly #output: LinearParameters;

  constructor({
    task,
    ...options
  }: BertHeadOptions & { readonly task: Exclude<BertTask, { kind: 'span' }> }) {
    const { hiddenSize } = options.model;
    this.#pooler = new Pooler(options);
    this.#output =
      task.kind === 'classification'
        ? headLinear('classification_head', [task.numClasses, hiddenSize], options)
        : headLinear('multichoice_head', [1, hiddenSize], options);
    this.parameters = [...this.#pooler.parameters, this.#output.weight, this.#output.bias];
  }

  /**
   * Returns the labels [B] with the loss factor as their weight. If the batch has no labels, all weights are
   * 0.
   */
  static targets({ batchSize, labels }: TaskTokenBatch, lossFactor: number): TaskTargets {
    const weight = labels === undefined ? 0 : lossFactor;
    return {
      labels: labels ?? new Int32Array(batchSize),
      weights: new Float32Array(batchSize).fill(weight),
    };
  }

  /**
   * Computes [1, R, classes], or [1, R, 1] for multiple choice. Both can be reshaped to one row per sample.
   */
  logits(tape: Tape, { batch, rows, dropped }: TaskHeadCall): Variable {
    const pooled = this.#pooler.pool(tape, rows(batch.firstPositions));
    const shape = [1, batch.numRows, pooled.tensor.dim(-1)];
    return linear(tape, { input: dropped(reshape(tape, { input: pooled, shape })), ...this.#output });
  }
}

/**
 * A value that is added to the logits of padding so that their softmax probability becomes 0. Every dtype can
 * represent it.
 */
const outOfReach = -30_000;

/**
 * The head for spans. It computes two logits for every token: its scores as the answer's first and last token
 * (Devlin et al. 2018, section 4.2). Padding is masked out, so the loss does not depend on the amount of
 * padding.
 */
export class SpanHead implements TaskHead {
  readonly parameters: readonly Parameter[];
  readonly #output: LinearParameters;

  constructor(options: BertHeadOptions) {
    this.#output = headLinear('span_head', [2, options.model.hiddenSize], options);
    this.parameters = [this.#output.weight, this.#output.bias];
  }

  /**
   * Returns the start labels [B] followed by the end labels [B]. Each label has half the loss factor, because
   * a sample's loss is the mean of its two losses.
   */
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

  /**
   * Computes [2 * R * S, 1, 1], which can be reshaped to [2 * R, S]: the start logits of all rows, followed
   * by the end logits.
   */
  logits(tape: Tape, { batch, rows }: TaskHeadCall): Variable {
    const { numRows: r, sequenceLength: s, lengths, starts } = batch;
    const { device } = batch.samples.tensor;
    // these constants serve a single operation, and the tape releases them
    const indices = (values: Int32Array): Variable =>
      tape.input(Tensor.from(values, { shape: [values.length], dtype: 'int32', device }));
    // padding has no packed token, so it reads token 0 instead; its logit is masked out below
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
