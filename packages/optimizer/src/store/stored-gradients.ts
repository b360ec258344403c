import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { Tensor } from '@mtl/kernels';
import type { FlatRange } from './flat-layout.js';

/**
 * Gradients that a store's ranks send to each other in a step, so that an update rule can read whole
 * parameters.
 */
export interface SharedGradients {
  /**
   * Waits until the gradients are complete in the bucket that contains the owned range with index `index`.
   * May free the gradients of the range that was taken before. Every rank must call this method for every
   * owned range, beginning with the last.
   */
  take(index: number): void;
  /**
   * Returns the elements [start, end) from the bucket that was taken last. The caller must dispose of the
   * view.
   */
  gradient(range: FlatRange): Tensor;
  /** Waits for all communication and frees the memory allocated for it. */
  finish(): void;
}

/** The main gradients of a store's trained parameters, which can be summed over the store's group. */
export interface StoredGradients {
  /** How many bytes the gradients occupy between two steps. */
  readonly bytes: number;
  /** See `ParameterStore.gradient`. */
  gradient(range: FlatRange): Tensor;
  /** See `ParameterStore.onOwnGradients`. */
  onOwnGradients(hook: (gradients: Tensor) => void): void;
  /** See `ParameterStore.expectLastBackward`. */
  expectLastBackward(chunk: number): void;
  /** See `ParameterStore.reduce`. */
  reduce(): void;
  /** See `ParameterStore.shareGradients`. */
  share(parameters: readonly Parameter[]): SharedGradients;
  /** Sets all gradients to zero. */
  clear(): void;
  /**
   * Called when the model stops using `unit`, possibly only for a while. The unit's gradients may be complete
   * then.
   */
  release(unit: ParameterUnit): void;
  /** Frees the memory; pending operations end before. */
  dispose(): void;
}
