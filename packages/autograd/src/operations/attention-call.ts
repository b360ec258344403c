import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import type { AttentionOptions, VisibilityOptions } from './attention.js';

/**
 * The attention options that a layer sets. The options that hide keys of other documents and samples are
 * missing here, because the micro-batch determines them.
 */
export interface AttentionCall extends Omit<AttentionOptions, 'visibility'> {
  readonly visibility?: Pick<VisibilityOptions, 'causal' | 'windowSize'> | undefined;
  /** The global index of the layer. */
  readonly layer: number;
}

/**
 * Computes attention of this rank's queries to all keys that are not hidden from them. The result is [own, B,
 * A * E], where `own` is this rank's number of positions.
 */
export type AttendRows = (tape: Tape, call: AttentionCall) => Variable;
