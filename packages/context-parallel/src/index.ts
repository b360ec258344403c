export type { ContextAttentionCall, ContextCommunication } from './context-attention.js';
export {
  type ContextPartition,
  type ContextPartitionOptions,
  contextPartition,
} from './context-partition.js';
export { chunkSizeOf, chunkSlice, chunksOfRank } from './sequence-chunks.js';
