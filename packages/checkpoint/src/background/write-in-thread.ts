import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { CheckpointError, unpackError } from '@mtl/errors';
import type { RankPart } from '../write-rank-shards.js';
import type { ShardWriterData, ShardWriterReply } from './shard-writer.js';

/**
 * Starts the thread. Built, it is JavaScript in `background/` next to this code; inside the repository this
 * file is TypeScript, and so is the thread's, which then needs a loader.
 */
function startShardWriter(workerData: ShardWriterData): Worker {
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL('./background/shard-writer.js', import.meta.url), { workerData });
  }
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('@mtl/tooling/typescript-loader')).href;
  const writer = new URL('./shard-writer.ts', import.meta.url).href;
  const start = `import('${loader}').then(() => import('${writer}'))`;
  return new Worker(start, { eval: true, workerData, execArgv: ['--conditions', '@mtl/source'] });
}

/**
 * Writes a rank's shards in a thread that ends with it; a program that has nothing else to do ends behind it.
 * @throws CheckpointError as `writeRankShards`; MTL_CHECKPOINT_THREAD when the thread ended before
 */
export async function writeInThread(data: ShardWriterData): Promise<RankPart> {
  const worker = startShardWriter(data);
  const reply = await new Promise<ShardWriterReply>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', (code) => reject(new Error(`it ended with status ${code}`)));
  }).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    throw new CheckpointError('MTL_CHECKPOINT_THREAD', `the thread that writes a checkpoint failed: ${why}`, {
      cause: error,
      remedy: 'save without a thread (training runs: leave out --async-save)',
    });
  });
  if ('error' in reply) throw unpackError(reply.error);
  return reply.part;
}
