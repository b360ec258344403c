import type { AttentionOptions, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { chunkSizeOf } from './sequence-chunks.js';

/**
 * How queries meet the keys of other processes. `all_gather`: every process gets the keys and values of all
 * (Llama Team 2024, 3.3.2); `p2p`: they go round in a ring, and partial results are merged (Ring Attention,
 * Liu et al. 2023); `a2a`: every process gets all positions of some heads (DeepSpeed-Ulysses, Jacobs et al.
 * 2023).
 */
export type ContextCommunication = 'all_gather' | 'p2p' | 'a2a';

/** A call of attention whose queries are those of the positions that this process owns, [own, B, ...]. */
export interface ContextAttentionCall extends Omit<AttentionOptions, 'keyStart'> {
  /** The index of its layer in the model. */
  readonly layer: number;
  /** S: of the whole sequence; undefined where samples are packed. */
  readonly sequenceLength: number | undefined;
  /** int32: the first keys that queries see, of the slices of `keyStartSlices` one after the other. */
  readonly keyStart?: Variable | undefined;
}

/** A call with what all ways of communicating compute with. */
export interface ContextCall extends ContextAttentionCall {
  readonly group: ProcessGroup;
  /** c: a process owns two chunks of so many positions. */
  readonly chunkSize: number;
}

/**
 * @throws UsageError `MTL_CONTEXT_PARALLEL` for samples without padding and for key masks, which are not
 *   divided
 * @throws ConfigurationError `MTL_CONTEXT_PARALLEL_SIZE` for a sequence that has no two chunks for each
 *   process
 */
export function contextCall(call: ContextAttentionCall, group: ProcessGroup): ContextCall {
  const { sequenceLength, packed, keyMask } = call;
  if (sequenceLength === undefined || packed !== undefined || keyMask !== undefined) {
    const what = keyMask === undefined ? 'packed samples' : 'a mask of keys';
    throw new UsageError('MTL_CONTEXT_PARALLEL', `${what} with context parallelism`, {
      expected: 'sequences of one length, whose documents are told apart by keyStart',
    });
  }
  return { ...call, group, chunkSize: chunkSizeOf(sequenceLength, group.size) };
}
