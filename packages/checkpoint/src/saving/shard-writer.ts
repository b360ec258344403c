import { parentPort, workerData } from 'node:worker_threads';
import { type ErrorMessage, packError } from '@mtl/errors';
import type { LogicalTensor } from '@mtl/layout';
import { nodeFileSystem } from '../files/file-system.js';
import { hostTensor } from '../tensors/logical-tensor.js';
import type { ShardsPlace } from './save-checkpoint.js';
import { type RankShards, writeRankShards } from './write-rank-shards.js';

/** A copy of a tensor's box, in memory that threads share. */
export interface TensorCopy
  extends Pick<LogicalTensor, 'name' | 'dtype' | 'globalShape' | 'slices' | 'limit'> {
  readonly memory: SharedArrayBuffer;
}

/** The data passed to the writer thread. */
export interface ShardWriterData {
  readonly place: ShardsPlace;
  readonly copies: readonly TensorCopy[];
}

/** The writer thread's result: the shards that it wrote, or an error. */
export type ShardWriterReply = { readonly part: RankShards } | { readonly error: ErrorMessage };

const { place, copies } = workerData as ShardWriterData;
const tensors = copies.map(({ memory, ...copy }) => hostTensor({ ...copy, memory: new Uint8Array(memory) }));

async function write(): Promise<ShardWriterReply> {
  try {
    return { part: await writeRankShards({ ...place, tensors, fileSystem: nodeFileSystem }) };
  } catch (error) {
    return { error: packError(error, { name: 'CheckpointError', code: 'MTL_CHECKPOINT_THREAD' }) };
  }
}

parentPort!.postMessage(await write());
