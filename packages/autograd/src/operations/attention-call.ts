import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import type { AttentionOptions, VisibilityOptions } from './attention.js';

/**
 * The attention options that a layer determines. The micro-batch determines the keys that are hidden because
 * of documents and samples.
 */
export interface AttentionCall extends Omit<AttentionOptions, 'visibility'> {
  readonly visibility?: Pick<VisibilityOptions, 'causal' | 'windowSize'> | undefined;
  /** The global index of the layer. */
  readonly layer: number;
}

/**
 * Computes attention of this rank's queries to all keys that are not hidden from them. The result is [own, B,
 * A * E].
 */
export type AttendRows = (tape: Tape, call: AttentionCall) => Variable;
