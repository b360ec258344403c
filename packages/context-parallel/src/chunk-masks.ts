import type { AttentionOptions as AttentionMasks, Tensor } from '@mtl/kernels';
import type { AttendedHeads } from './context-attention.js';

/** The masks and the dropout of a call that are the same for all chunks. */
export function chunkMasks(
  { causal = false, windowSize, dropout, headOffset = 0 }: AttendedHeads,
  /** int64: the numbers of samples. Default: those of the call. */
  samples: Tensor | undefined = dropout?.samples.tensor,
): AttentionMasks {
  return {
    causal,
    windowSize,
    dropout: dropout && {
      probability: dropout.probability,
      keyLow: dropout.key[0],
      keyHigh: dropout.key[1],
      samples: samples!,
      headOffset,
    },
  };
}
