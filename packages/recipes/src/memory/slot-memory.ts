import type { PassKind } from '@mtl/pipeline/schedules';
import type { Chunk, ChunkMemory } from './chunk-memory.js';

/**
 * Bytes of a slot (`GraphedStage` of @mtl/pipeline): what one micro-batch needs at most on a chunk, from its
 * forward to the end of its backward, and stays where it is whether the slot has a micro-batch or not. Of the
 * gradient of the result there is a copy in a fixed place, which forward has besides; in backward, where it
 * is the first of the gradients, the result is still there.
 *
 * A slot's memory is taken in segments that are cut into blocks. Where layers keep what they have made, what
 * they need meanwhile is cut out of places that the widened activations of the next one then do not fit into:
 * measured, one of these is lost in each slot.
 */
export function slotMemory(
  { untilInput, untilWeight, growth, boundary, cutting }: ChunkMemory,
  { chunk, kinds }: { readonly chunk: Chunk; readonly kinds: ReadonlySet<PassKind> },
): number {
  const peaks: Readonly<Record<PassKind, number>> = {
    F: growth.F,
    B: untilInput + growth.B,
    I: untilInput + growth.I,
    W: untilWeight + growth.W,
  };
  return Math.max(...[...kinds].map((kind) => peaks[kind])) + (chunk.isLast ? 0 : boundary) + cutting;
}
