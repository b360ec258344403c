import type { Tape } from '../tape.js';
import type { Variable } from '../variable.js';
import type { AttentionOptions } from './attention.js';

/** Attention as a layer asks for it; which keys are hidden by documents and samples is known of the rows. */
export interface AttentionCall extends Omit<AttentionOptions, 'keyStart' | 'keyMask' | 'packed'> {
  /** The index of its layer in the model. */
  readonly layer: number;
}

/** Computes attention of the own queries of a rank to all keys that they may see: [own, B, A * D]. */
export type AttendRows = (tape: Tape, call: AttentionCall) => Variable;
