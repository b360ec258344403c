import { linear, type Parameter, reshape, type Tape, type Variable } from '@mtl/autograd';
import type { TaskTokenBatch } from '@mtl/data/tasks';
import type { BertTask } from './bert-task.js';
import { type BertHeadOptions, headLinear, type LinearParameters } from './head-linear.js';
import { Pooler } from './pooler.js';
import type { TaskTargets } from './task-batch-to-device.js';
import type { TaskHead, TaskHeadCall } from './task-head.js';

/**
 * Classification and multiple choice: pooler, dropout and a linear layer with a logit for each class, or one
 * for each sequence, of which those of a sample compete (Devlin et al. 2018, sections 4.1 and 4.4). The
 * linear layers are called as in Megatron-LM; only the pooler may come from pretraining.
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

  /** The labels [B] of samples, each with the loss factor; of no weight where there are none. */
  static targets({ batchSize, labels }: TaskTokenBatch, lossFactor: number): TaskTargets {
    const weight = labels === undefined ? 0 : lossFactor;
    return {
      labels: labels ?? new Int32Array(batchSize),
      weights: new Float32Array(batchSize).fill(weight),
    };
  }

  /** [1, R, classes], or [1, R, 1] of choices: either folds to a row a sample. */
  logits(tape: Tape, { batch, rows, dropped }: TaskHeadCall): Variable {
    const pooled = this.#pooler.pool(tape, rows(batch.firstPositions));
    const shape = [1, batch.numRows, pooled.tensor.dim(-1)];
    return linear(tape, { input: dropped(reshape(tape, { input: pooled, shape })), ...this.#output });
  }
}
