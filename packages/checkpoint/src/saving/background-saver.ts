import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { CheckpointError, UsageError, unpackError } from '@mtl/errors';
import type { LogicalTensor } from '@mtl/layout';
import { bytesOfSlices } from '../tensors/logical-tensor.js';
import { CheckpointSave, type SaveOptions, type SaveResult } from './save-checkpoint.js';
import type { ShardWriterData, ShardWriterReply, TensorCopy } from './shard-writer.js';
import { isWritten, type RankShards } from './write-rank-shards.js';

/** A save in progress. */
interface SaveUnderWay {
  readonly save: CheckpointSave;
  readonly part: Promise<RankShards>;
  isOver: boolean;
}

/**
 * Saves checkpoints in the background while the caller continues. `begin` copies the tensors, a thread writes
 * the copies, and `finish` publishes the checkpoint. Only one save can be in progress. All ranks must call
 * `begin` and `finish` in the same order. The caller must make the ranks agree on when to call `finish`,
 * based on every rank's `isWritten`. The checkpoint does not exist before `finish`. If the process ends
 * earlier, the next save removes the files.
 *
 * The memory for the copies of all boxes that this rank writes stays allocated from one save to the next.
 */
export class BackgroundSaver {
  readonly #copies = new TensorCopies();
  #underWay: SaveUnderWay | undefined;

  /** True if a save has begun and is not finished. */
  get isSaving(): boolean {
    return this.#underWay !== undefined;
  }

  /**
   * True if `finish` would not wait for this rank, because its shards have been written or writing has
   * failed.
   */
  get isWritten(): boolean {
    return this.#underWay?.isOver ?? true;
  }

  /**
   * Begins a save. Once the promise resolves, the caller may modify the tensors.
   *
   * @throws the errors of `saveCheckpoint`, on all ranks; UsageError MTL_CHECKPOINT_OPTIONS if the previous
   *   save has not finished
   */
  async begin(options: Omit<SaveOptions, 'fileSystem'>): Promise<void> {
    if (this.isSaving) {
      throw new UsageError(
        'MTL_CHECKPOINT_OPTIONS',
        `iteration ${options.iteration}: another save is under way`,
        {
          remedy: 'finish it before',
        },
      );
    }
    const save = new CheckpointSave(options);
    let copies: Awaited<ReturnType<TensorCopies['take']>> = [];
    await save.begin(async () => {
      copies = await this.#copies.take(options.tensors);
    });
    const write = async (): Promise<RankShards> => writeInThread({ place: await save.shardsPlace(), copies });
    const underWay: SaveUnderWay = { save, part: write(), isOver: false };
    const isOver = (): void => {
      underWay.isOver = true;
    };
    // `finish` reports a failure
    underWay.part.then(isOver, isOver);
    this.#underWay = underWay;
  }

  /**
   * Waits for the save that `begin` started, and publishes the checkpoint.
   *
   * @throws the errors of `saveCheckpoint`, on all ranks; CheckpointError MTL_CHECKPOINT_THREAD if the thread
   *   ended unexpectedly; UsageError MTL_CHECKPOINT_OPTIONS if no save was begun
   */
  async finish(): Promise<SaveResult> {
    const underWay = this.#underWay;
    if (underWay === undefined) {
      throw new UsageError('MTL_CHECKPOINT_OPTIONS', 'no save is under way', { remedy: 'begin one before' });
    }
    this.#underWay = undefined;
    return await underWay.save.finish(() => underWay.part);
  }
}

/**
 * Copies the boxes that this rank writes. The memory of the copies is kept, so that a later save of the same
 * tensors allocates nothing.
 */
class TensorCopies {
  #memory: readonly SharedArrayBuffer[] = [];

  async take(tensors: readonly LogicalTensor[]): Promise<readonly TensorCopy[]> {
    const written = tensors.filter(isWritten);
    const before = this.#memory;
    this.#memory = written.map(({ dtype, slices }, index) => {
      const bytes = bytesOfSlices(dtype, slices);
      return before[index]?.byteLength === bytes ? before[index] : new SharedArrayBuffer(bytes);
    });
    const copies = written.map(({ name, dtype, globalShape, slices, limit }, index) => {
      const box = { name, dtype, globalShape, slices, ...(limit === undefined ? {} : { limit }) };
      return { ...box, memory: this.#memory[index]! };
    });
    for (const [index, tensor] of written.entries()) {
      const target = new Uint8Array(copies[index]!.memory);
      if (tensor.readInto === undefined) target.set(await tensor.read());
      else await tensor.readInto(target);
    }
    return copies;
  }
}

/**
 * Starts the writer thread. In the built package, its program is a JavaScript file in `saving/`, next to this
 * code. In the repository, this file and the program are TypeScript, and the thread needs a loader.
 */
function startShardWriter(workerData: ShardWriterData): Worker {
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL('./saving/shard-writer.js', import.meta.url), { workerData });
  }
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('@mtl/tooling/typescript-loader')).href;
  const writer = new URL('./shard-writer.ts', import.meta.url).href;
  const start = `import('${loader}').then(() => import('${writer}'))`;
  return new Worker(start, { eval: true, workerData, execArgv: ['--conditions', '@mtl/source'] });
}

/**
 * Writes a rank's shards in a dedicated thread. The thread keeps the program alive until the shards are
 * written.
 * @throws the errors of `writeRankShards`; CheckpointError MTL_CHECKPOINT_THREAD if the thread ended
 *   unexpectedly
 */
async function writeInThread(data: ShardWriterData): Promise<RankShards> {
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
