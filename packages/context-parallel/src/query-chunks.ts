import type { SavedTensor, Variable } from '@mtl/autograd';
import type { AttentionOptions as AttentionMasks, Tensor } from '@mtl/kernels';
import type { ContextCall } from './context-attention.js';
import { chunkSlice, chunksOfRank } from './sequence-chunks.js';

/** The tensors that masks are made of: saved ones in backward, the caller's in forward. */
export interface MaskTensors {
  /** See `ContextAttentionCall`. */
  readonly keyStart: Variable | SavedTensor | undefined;
  /** int64 [B] */
  readonly samples: Variable | SavedTensor | undefined;
}

/** A chunk of queries that this process owns. */
export interface QueryChunk {
  /** 0 or 1: which of its two. */
  readonly half: number;
  /** Which of the 2 n of the sequence. */
  readonly chunk: number;
  /** Its first position in the sequence. */
  readonly first: number;
}

export function queryChunks({ group, chunkSize }: ContextCall): readonly QueryChunk[] {
  return chunksOfRank(group.rank, group.size).map((chunk, half) => ({
    half,
    chunk,
    first: chunk * chunkSize,
  }));
}

/** The rows of a chunk among the own ones, [own, ...] to [c, ...]. */
export function rowsOfHalf(tensor: Tensor, half: number): Tensor {
  const { start, end } = chunkSlice(half, tensor.dim(0) / 2);
  return tensor.rows(start, end);
}

/** Attention's options for the queries of a chunk and keys from `firstKey` on: masks and dropout. */
export function masksOf(
  call: ContextCall,
  { keyStart, samples }: MaskTensors,
  { half, first, firstKey = 0 }: Pick<QueryChunk, 'half' | 'first'> & { readonly firstKey?: number },
): AttentionMasks {
  const { causal = false, windowSize, dropout, headOffset = 0, chunkSize, qkv } = call;
  const batch = qkv.tensor.dim(1);
  return {
    causal,
    windowSize,
    firstQuery: first,
    firstKey,
    keyStart: keyStart?.tensor.view({ offset: half * batch * chunkSize, shape: [batch, chunkSize] }),
    dropout: dropout && {
      probability: dropout.probability,
      keyLow: dropout.key[0],
      keyHigh: dropout.key[1],
      samples: samples!.tensor,
      headOffset,
    },
  };
}

/** True where positions let a query of one chunk see a key of another. */
export function mayBeSeen(
  { causal = false, windowSize, chunkSize }: ContextCall,
  { queries, keys }: { readonly queries: number; readonly keys: number },
): boolean {
  if (!causal) return true;
  if (keys > queries) return false;
  // the last key is nearest to the first query
  return windowSize === undefined || (queries - keys - 1) * chunkSize + 1 <= windowSize;
}
