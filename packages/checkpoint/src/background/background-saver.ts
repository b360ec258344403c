import { UsageError } from '@mtl/errors';
import { CheckpointSave, type SaveOptions, type SaveResult } from '../checkpoint-save.js';
import type { RankPart } from '../write-rank-shards.js';
import { TensorCopies } from './tensor-copies.js';
import { writeInThread } from './write-in-thread.js';

/** A save of which the shards are being written. */
interface SaveUnderWay {
  readonly save: CheckpointSave;
  readonly part: Promise<RankPart>;
  isOver: boolean;
}

/**
 * Saves checkpoints while the caller goes on: `begin` copies the tensors, a thread writes the copies,
 * `finish` publishes. One save at a time. All ranks call `begin` and `finish` alike; whether it is time to
 * finish they agree on themselves, from `isWritten` of each. Until `finish` there is no checkpoint: what a
 * process leaves that ends before is removed by the next save.
 *
 * Memory: that of all boxes that this rank writes, kept from one save to the next.
 */
export class BackgroundSaver {
  readonly #copies = new TensorCopies();
  #underWay: SaveUnderWay | undefined;

  /** Whether there is a save to finish. */
  get isSaving(): boolean {
    return this.#underWay !== undefined;
  }

  /** Whether `finish` would not wait for this rank: its shards are written, or could not be. */
  get isWritten(): boolean {
    return this.#underWay?.isOver ?? true;
  }

  /**
   * Begins a save. When it resolves, the tensors may change.
   *
   * @throws as `saveCheckpoint`, on all ranks; UsageError MTL_CHECKPOINT_OPTIONS where the save before is not
   *   finished
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
    const write = async (): Promise<RankPart> => writeInThread({ place: await save.shardsPlace(), copies });
    const underWay: SaveUnderWay = { save, part: write(), isOver: false };
    const isOver = (): void => {
      underWay.isOver = true;
    };
    // a failure is `finish`'s to tell
    underWay.part.then(isOver, isOver);
    this.#underWay = underWay;
  }

  /**
   * Waits for what `begin` began, and publishes the checkpoint.
   *
   * @throws as `saveCheckpoint`, on all ranks; CheckpointError MTL_CHECKPOINT_THREAD where the thread ended;
   *   UsageError MTL_CHECKPOINT_OPTIONS where nothing was begun
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
