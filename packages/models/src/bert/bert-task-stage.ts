import { crossEntropy, type Parameter, type Tape, type Variable } from '@mtl/autograd';
import type { TaskTokenBatch } from '@mtl/data';
import { UsageError } from '@mtl/errors';
import { cast, Tensor } from '@mtl/kernels';
import type { StageLoss } from '@mtl/pipeline';
import type { Positions, StageCall, ToDevice } from '../blocks/transformer-stage.js';
import { BertEncoderStage, type BertStageOptions } from './bert-encoder-stage.js';
import type { BertTask } from './bert-task.js';
import { PooledHead } from './pooled-head.js';
import type { PaddedSize } from './sample-packing.js';
import { SpanHead } from './span-head.js';
import { type DeviceTaskBatch, taskBatchToDevice } from './task-batch-to-device.js';

export interface BertTaskStageOptions extends BertStageOptions {
  readonly task: BertTask;
}

/** The loss of a micro-batch and the logits. */
export interface TaskLoss extends StageLoss {
  /**
   * float32: classification [B, classes], multiple choice [B, C], spans [2 * B, S], the starts of all samples
   * and then the ends.
   */
  readonly logits: Tensor;
}

/**
 * BERT for a fine-tuning task as a pipeline stage: the encoder of pretraining under a head of its own. Its
 * loss is the mean over samples, each with `sampleLossFactor`. A batch without labels weighs nothing, so that
 * test sets can be evaluated.
 */
export class BertTaskStage extends BertEncoderStage<TaskTokenBatch, DeviceTaskBatch> {
  readonly parameters: readonly Parameter[];
  readonly task: BertTask;
  readonly #head: PooledHead | SpanHead | undefined;

  /** @throws ConfigurationError as `BertEncoderStage` does */
  constructor({ task, ...options }: BertTaskStageOptions) {
    super(options, { isTied: false });
    const { model, tensorParallel } = options;
    this.task = task;
    if (!this.isLast) this.#head = undefined;
    else if (task.kind === 'span') this.#head = new SpanHead({ model, tensorParallel });
    else this.#head = new PooledHead({ model, tensorParallel, task });
    this.parameters = [...this.bodyParameters, ...(this.#head?.parameters ?? [])];
  }

  /** On the last stage, as of every stage, with the logits. */
  override takeLoss(microBatch: number): TaskLoss {
    // `stageLoss` made it
    return super.takeLoss(microBatch) as TaskLoss;
  }

  protected sizeOf({ batchSize, numChoices, sequenceLength, lengths }: TaskTokenBatch): PaddedSize {
    return { batchSize: batchSize * numChoices, sequenceLength, lengths };
  }

  protected toDevice(
    { batch, sampleLossFactor, upload }: ToDevice<TaskTokenBatch>,
    positions: Positions,
  ): DeviceTaskBatch {
    if (sampleLossFactor === undefined) {
      throw new UsageError('MTL_STAGE', 'a loss per sample without sampleLossFactor', {
        expected: 'sampleLossFactor: the loss scale over the samples of the global batch',
      });
    }
    const head = this.task.kind === 'span' ? SpanHead : PooledHead;
    const targets = head.targets(batch, sampleLossFactor);
    return taskBatchToDevice(batch, { ...this.sequencesOptions(batch, positions, upload), targets });
  }

  protected losses(tape: Tape, hidden: Variable, call: StageCall<DeviceTaskBatch>): readonly Variable[] {
    const { batch } = call;
    // the head reads one row per sequence, replicated: its dropout masks depend on that row alone
    const ofHead = { ...call, batch: { ...batch, rows: batch.headRows } };
    const logits = this.#head!.logits(tape, {
      batch,
      rows: (indices) => this.rows(tape, hidden, indices, call),
      dropped: (input) => this.dropped(tape, input, { site: 'task_head.dropout', call: ofHead }),
    });
    return [crossEntropy(tape, { logits, labels: batch.labels, weights: batch.weights }), logits];
  }

  protected stageLoss(outputs: readonly Variable[], batch: DeviceTaskBatch): TaskLoss {
    const [losses, predicted] = outputs.map(({ tensor }) => tensor) as [Tensor, Tensor];
    const numLosses = losses.size;
    const weights = batch.weights.tensor.view({ shape: [numLosses] });
    const view = losses.view({ shape: [numLosses] });
    const logits = Tensor.empty({
      shape: [numLosses, predicted.size / numLosses],
      dtype: losses.dtype,
      device: losses.device,
    });
    using matrix = predicted.reshape(logits.shape);
    cast({ output: logits, input: matrix });
    return {
      losses: view,
      weights,
      logits,
      parts: [{ name: 'task_loss', start: 0, end: numLosses }],
      dispose: () => {
        for (const tensor of [view, weights, logits]) tensor.dispose();
      },
    };
  }
}
