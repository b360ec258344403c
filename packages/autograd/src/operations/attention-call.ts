import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import type { AttentionOptions, VisibilityOptions } from './attention.js';

/**
 * Attention options that a layer gives. The rows of the micro-batch determine the keys that documents and
 * samples hide.
 */
export interface AttentionCall extends Omit<AttentionOptions, 'visibility'> {
  readonly visibility?: Pick<VisibilityOptions, 'causal' | 'windowSize'> | undefined;
  /** The index of its layer in the model. */
  readonly layer: number;
}

/** Computes attention of a rank's own queries to all keys that they may see: [own, B, A * E]. */
export type AttendRows = (tape: Tape, call: AttentionCall) => Variable;
