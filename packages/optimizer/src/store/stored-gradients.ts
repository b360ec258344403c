import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { Tensor } from '@mtl/kernels';
import type { FlatRange } from './flat-layout.js';

/**
 * Gradients that the ranks of a store send to each other for a step, so that an update rule can read whole
 * parameters.
 */
export interface SharedGradients {
  /**
   * Waits until the gradients of the bucket with owned range number `index` are whole. The gradients of a
   * range that was taken before may be freed. Every rank must call it for every owned range, the last one
   * first.
   */
  take(index: number): void;
  /** Returns elements [end - start] of the bucket that was taken last; the caller disposes of the view. */
  gradient(range: FlatRange): Tensor;
  /** Waits for all communication, and frees memory that was allocated for it. */
  finish(): void;
}

/** The main gradients of the trained parameters of a store, with their sums over its group. */
export interface StoredGradients {
  /** Bytes that the gradients occupy between two steps. */
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
  /** Called when a unit is not used for the time being: its gradients may be complete. */
  release(unit: ParameterUnit): void;
  /** Frees the memory; pending operations end before. */
  dispose(): void;
}
