import type { Tensor, TensorOptions, TypedArray } from '@mtl/kernels';

/**
 * The factor with which each loss enters the total of a global batch, by its name: the loss scale times its
 * weight, over the number of tokens, samples or other units that it is a mean over in the global batch.
 */
export type LossFactors = Readonly<Record<string, number>>;

/** Copies host values to a device, into a tensor that the caller owns. Default for stages: `Tensor.from`. */
export type Upload = (values: TypedArray, options: Required<TensorOptions>) => Tensor;

/** A micro-batch on the device, as its stage knows it. */
export interface LoadedBatch {
  /**
   * Text that distinguishes its passes from the passes of other micro-batches whose uploads have the same
   * shapes; default: none.
   */
  readonly variant?: string | undefined;
  release(): void;
}

/** The inputs of a stage for one micro-batch. */
export interface StageForward<Batch> {
  /** Identifies the micro-batch until its backward is done; several may be in flight. */
  readonly microBatch: number;
  /** The data of the micro-batch: read by the first and the last stage. */
  readonly batch: Batch;
  /** The factors of the losses that this stage makes; it ignores others. */
  readonly lossFactors: LossFactors;
  /**
   * The boundary activations [S, B, H] of the stage before; absent on the first stage. The caller disposes
   * them.
   */
  readonly input?: Tensor | undefined;
  /**
   * The micro-batch of a training step whose backward completes the gradients of the stage's weights: they
   * are reduced concurrently with it. Default: not known.
   */
  readonly endsStep?: boolean | undefined;
  /**
   * The result of the stage's `load` for the micro-batch, which becomes the stage's. Default: the stage loads
   * it itself.
   */
  readonly loaded?: LoadedBatch | undefined;
}

/**
 * A loss of a micro-batch: its values (one per token, one per sample, or one sum) and the factors with which
 * they enter the total, both float32 [n].
 */
export interface StageLoss {
  /** Its name in metrics.jsonl, such as `lm_loss`. */
  readonly name: string;
  readonly losses: Tensor;
  readonly weights: Tensor;
  dispose(): void;
}

/**
 * A model chunk (consecutive layers) as pipeline schedules see it. Forward and the two halves of backward are
 * separate, so that a schedule can move the weight half (zero bubble) and a trainer never needs to know which
 * model it trains.
 */
export interface Stage<Batch> {
  readonly isFirst: boolean;
  readonly isLast: boolean;
  /** Returns the shape of the boundary activations for a micro-batch. */
  boundaryShape(batch: Batch): readonly number[];
  /**
   * Copies the data of a micro-batch that its passes read to the device, only through `upload` and always in
   * the same order. Absent if passes differ in more than the values of these tensors: such passes cannot be
   * recorded and launched again (`GraphedStage`).
   */
  load?(call: Pick<StageForward<Batch>, 'batch' | 'lossFactors'>, upload: Upload): LoadedBatch;
  /** Runs forward and keeps what backward needs. Returns boundary activations, except on the last stage. */
  forward(call: StageForward<Batch>): Tensor | undefined;
  /**
   * Runs the input half of backward: takes the gradient of forward's result (none on the last stage), returns
   * the gradient of the stage's input (none on the first). With `weights` the weight half is done in the same
   * sweep.
   */
  backwardInput(call: {
    readonly microBatch: number;
    readonly outputGradient?: Tensor | undefined;
    readonly weights?: boolean;
  }): Tensor | undefined;
  /** Runs the weight half of a micro-batch whose input half is done. */
  backwardWeight(call: { readonly microBatch: number }): void;
  /**
   * Returns, after the input half of backward (or `evaluate`), the losses that this stage has computed for a
   * micro-batch; any stage may have losses. The caller disposes the losses. Losses with the same name are
   * added.
   */
  takeLosses(microBatch: number): readonly StageLoss[];
  /** Runs forward without keeping anything; the losses of the stage are ready at once (`takeLosses`). */
  evaluate(call: StageForward<Batch>): Tensor | undefined;
  /** Releases micro-batches whose backward will not run (after an error): one micro-batch, or all. */
  abandon(microBatch?: number): void;
}
