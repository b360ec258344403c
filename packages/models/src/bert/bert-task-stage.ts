import { crossEntropy, type Parameter, type Tape, type Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { cast, Tensor } from '@mtl/kernels';
import type { TaskTokenBatch } from '@mtl/layout';
import type { StageLoss } from '@mtl/pipeline';
import type { Positions } from '../blocks/layer-sharding.js';
import { numOwners } from '../blocks/sequence-partition.js';
import { asStageLoss, findLossFactor } from '../blocks/stage-losses.js';
import type { StageCall, ToDevice } from '../stages/stage-call.js';
import { BertEncoderStage, type BertStageOptions } from './bert-encoder-stage.js';
import type { BertTask } from './bert-model.js';
import type { PaddedSize } from './sample-packing.js';
import { type DeviceTaskBatch, taskBatchToDevice } from './task-batch-to-device.js';
import { PooledHead, SpanHead } from './task-heads.js';

export interface BertTaskStageOptions extends BertStageOptions {
  readonly task: BertTask;
}

/** The loss `task_loss` of a micro-batch together with the logits. The last stage computes both. */
export interface TaskLoss extends StageLoss {
  /**
   * float32. Classification: [B, classes]. Multiple choice: [B, C]. Spans: [2 * B, S], first the start logits
   * of all samples, then the end logits.
   */
  readonly logits: Tensor;
}

/**
 * BERT for a fine-tuning task as a pipeline stage: the pretraining encoder with a task head. The loss
 * `task_loss` is the mean over samples. For batches without labels, the loss weight is 0, so test sets can be
 * evaluated.
 */
export class BertTaskStage extends BertEncoderStage<TaskTokenBatch, DeviceTaskBatch> {
  readonly parameters: readonly Parameter[];
  readonly task: BertTask;
  readonly #head: PooledHead | SpanHead | undefined;

  /**
   * @throws ConfigurationError the errors of `BertEncoderStage`
   * @throws UsageError MTL_STAGE if several ranks share the rows of a micro-batch (context parallelism)
   */
  constructor({ task, ...options }: BertTaskStageOptions) {
    super(options, { isTied: false });
    if (numOwners(this.sequence) > 1) {
      throw new UsageError('MTL_STAGE', 'a fine-tuning task whose rows ranks share', {
        expected: 'no `sequence`: its head reads rows of all positions',
      });
    }
    const { model } = options;
    const { factory } = this;
    this.task = task;
    if (!this.isLast) this.#head = undefined;
    else if (task.kind === 'span') this.#head = new SpanHead({ model, factory });
    else this.#head = new PooledHead({ model, factory, task });
    this.parameters = [...this.bodyParameters, ...(this.#head?.parameters ?? [])];
  }

  protected measureSize({ batchSize, numChoices, sequenceLength, lengths }: TaskTokenBatch): PaddedSize {
    return { batchSize: batchSize * numChoices, sequenceLength, lengths };
  }

  protected toDevice(call: ToDevice<TaskTokenBatch>, positions: Positions): DeviceTaskBatch {
    const { batch, lossFactors, training } = call;
    const head = this.task.kind === 'span' ? SpanHead : PooledHead;
    // every stage uploads labels and weights, but only the last stage reads them
    const targets = head.targets(batch, this.isLast ? findLossFactor(lossFactors, 'task_loss') : 0);
    const isPooled = this.isLast && this.task.kind !== 'span';
    const dropsInHead = isPooled && training && this.model.hiddenDropout > 0;
    return taskBatchToDevice(batch, { ...this.sequencesOptions(call, positions), targets, dropsInHead });
  }

  protected computeLosses(
    tape: Tape,
    hidden: Variable,
    call: StageCall<DeviceTaskBatch>,
  ): readonly Variable[] {
    const { batch } = call;
    // the head reads one row per sequence. All ranks hold the same rows, so the head's dropout masks depend
    // only on the row
    const ofHead = { ...call, batch: { ...batch, rows: batch.headRows } };
    const logits = this.#head!.logits(tape, {
      batch,
      rows: (indices) => this.rows(tape, hidden, indices, call),
      dropped: (input) => this.dropped(tape, input, { site: 'task_head.dropout', call: ofHead }),
    });
    return [crossEntropy(tape, { logits, labels: batch.labels, weights: batch.weights }), logits];
  }

  protected namedLosses(
    [losses, { tensor: predicted }]: readonly [Variable, Variable],
    { weights }: DeviceTaskBatch,
  ): readonly [TaskLoss] {
    const loss = asStageLoss({ name: 'task_loss', losses, weights });
    const { size: numLosses, dtype, device } = loss.losses;
    const logits = Tensor.empty({ shape: [numLosses, predicted.size / numLosses], dtype, device });
    using matrix = predicted.reshape(logits.shape);
    cast({ output: logits, input: matrix });
    const dispose = (): void => {
      loss.dispose();
      logits.dispose();
    };
    return [{ ...loss, logits, dispose }];
  }
}
