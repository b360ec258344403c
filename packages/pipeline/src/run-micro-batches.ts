import type { Stage, StageLoss } from './stage.js';

export interface RunMicroBatchesOptions<Batch> {
  /** A model that is one stage: first and last. */
  readonly stage: Stage<Batch>;
  /** The micro-batches of one global batch. */
  readonly batches: readonly Batch[];
  /** See StageForward. */
  readonly lossFactor: number;
  /** Called before the backward after which gradients are whole. */
  readonly beforeLastBackward?: () => void;
  /** Called after each backward. */
  readonly onLoss: (loss: StageLoss, microBatch: number) => void;
}

/**
 * Gradient accumulation on one stage: forward and backward of each micro-batch in turn, so that the activations of only
 * one are alive.
 */
export function runMicroBatches<Batch>(options: RunMicroBatchesOptions<Batch>): void {
  const { stage, batches, lossFactor, onLoss } = options;
  batches.forEach((batch, microBatch) => {
    stage.forward({ microBatch, batch, lossFactor });
    if (microBatch === batches.length - 1) options.beforeLastBackward?.();
    stage.backwardInput({ microBatch, weights: true });
    const loss = stage.takeLoss(microBatch);
    onLoss(loss, microBatch);
    loss.dispose();
  });
}
