export type { ContextLevels } from './blocks-of-processes.js';
export type { ContextAttentionCall, ContextCommunication } from './context-attention.js';
export {
  type ContextPartition,
  type ContextPartitionOptions,
  contextPartition,
} from './context-partition.js';
export type { Upload, UploadOptions } from './packed-row-order.js';
export type { OwnRows, PackedSamplesOfBatch, SequencesOfBatch } from './rows-of-batch.js';
export { chunkSizeOf, chunkSlice, chunksOfRank } from './sequence-chunks.js';
