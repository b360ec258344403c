import { parentPort, workerData } from 'node:worker_threads';
import { type ErrorMessage, packError } from '@mtl/errors';
import type { ShardsPlace } from '../checkpoint-save.js';
import { nodeFileSystem } from '../file-system.js';
import { hostTensor } from '../logical-tensor.js';
import { type RankPart, writeRankShards } from '../write-rank-shards.js';
import type { TensorCopy } from './tensor-copies.js';

/** What the thread is started with. */
export interface ShardWriterData {
  readonly place: ShardsPlace;
  readonly copies: readonly TensorCopy[];
}

/** What it wrote, or why it did not. */
export type ShardWriterReply = { readonly part: RankPart } | { readonly error: ErrorMessage };

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
