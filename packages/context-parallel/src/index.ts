export type { ContextLevels } from './blocks-of-processes.js';
export type { ContextCommunication } from './context-attention.js';
export {
  type ContextPartition,
  type ContextPartitionOptions,
  contextPartition,
  type RowsOfProcess,
} from './context-partition.js';
export type { Upload, UploadOptions } from './packed-chunks.js';
