import type { Tensor, TensorOptions, TypedArray } from '@mtl/kernels';

/**
 * The factor of each loss, by the loss's name. In the total of a global batch, each value of a loss is
 * multiplied by its factor. The factor is the loss scale times the weight of the loss, divided by the number
 * of units (tokens or samples) in the global batch over which this loss is a mean.
 */
export type LossFactors = Readonly<Record<string, number>>;

/**
 * Copies host values to a device, into a tensor that the caller owns. By default, stages use `Tensor.from`.
 */
export type Upload = (values: TypedArray, options: Required<TensorOptions>) => Tensor;

/** A micro-batch after its stage's `load` has copied it to the device. */
export interface LoadedBatch {
  /**
   * A string that differs between two micro-batches whose uploads have the same shapes but whose passes run
   * different operations. Default: none.
   */
  readonly variant?: string | undefined;
  release(): void;
}

/** The inputs of a stage for one micro-batch. */
export interface StageForward<Batch> {
  /**
   * Identifies the micro-batch until the end of its backward pass. Several micro-batches may be in flight.
   */
  readonly microBatch: number;
  /** The data of the micro-batch. Only the first and the last stage read it. */
  readonly batch: Batch;
  /** The factors of the losses that this stage computes. Factors of other losses are ignored. */
  readonly lossFactors: LossFactors;
  /**
   * The boundary activations [S, B, H] from the previous stage; absent on the first stage. The caller
   * disposes of them.
   */
  readonly input?: Tensor | undefined;
  /**
   * True for the micro-batch whose backward pass completes the stage's weight gradients in a training step.
   * Gradients are reduced during this pass. Undefined if not known.
   */
  readonly endsStep?: boolean | undefined;
  /**
   * The result of the stage's `load` for this micro-batch, which the stage then owns. Default: the stage
   * itself calls `load`.
   */
  readonly loaded?: LoadedBatch | undefined;
}

/**
 * A loss of a micro-batch: its values (one per token, one per sample, or one sum), and their factors in the
 * total. Both are float32 [n].
 */
export interface StageLoss {
  /** The name of the loss in metrics.jsonl, for example `lm_loss`. */
  readonly name: string;
  readonly losses: Tensor;
  readonly weights: Tensor;
  dispose(): void;
}

/**
 * A model chunk (consecutive layers) in the form that pipeline schedules need. The forward pass and the two
 * halves of the backward pass are separate, so that a schedule can delay the weight half (zero bubble). A
 * trainer that uses this interface does not depend on the model.
 */
export interface Stage<Batch> {
  readonly isFirst: boolean;
  readonly isLast: boolean;
  /** Returns the shape of the boundary activations for `batch`. */
  boundaryShape(batch: Batch): readonly number[];
  /**
   * Copies to the device the data that a micro-batch's passes read, using only `upload`, and always in the
   * same order. Absent if passes differ in more than the values of these tensors. Such passes cannot be
   * recorded and launched again (see `GraphedStage`).
   */
  load?(call: Pick<StageForward<Batch>, 'batch' | 'lossFactors'>, upload: Upload): LoadedBatch;
  /**
   * Runs the forward pass and keeps the tensors for the backward pass. Returns boundary activations, except
   * on the last stage.
   */
  forward(call: StageForward<Batch>): Tensor | undefined;
  /**
   * Runs the input half of the backward pass: reads the gradient of the forward pass's result (absent on the
   * last stage) and returns the gradient of the stage's input (none on the first stage). With `weights`, also
   * runs the weight half.
   */
  backwardInput(call: {
    readonly microBatch: number;
    readonly outputGradient?: Tensor | undefined;
    readonly weights?: boolean;
  }): Tensor | undefined;
  /** Runs the weight half of a micro-batch after its input half. */
  backwardWeight(call: { readonly microBatch: number }): void;
  /**
   * Returns the losses that this stage has computed for a micro-batch, after the input half of the backward
   * pass (or after `evaluate`). Any stage may have losses. The caller disposes of the losses. Losses with the
   * same name are summed.
   */
  takeLosses(microBatch: number): readonly StageLoss[];
  /**
   * Runs the forward pass and keeps no activations. The stage's losses are then available from `takeLosses`.
   */
  evaluate(call: StageForward<Batch>): Tensor | undefined;
  /**
   * Releases the memory of micro-batch `microBatch`, whose backward pass will not run after an error.
   * Default: all micro-batches are released.
   */
  abandon(microBatch?: number): void;
}
