import { existsSync } from 'node:fs';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { renameFile } from '@mtl/errors/files';
import { makeDirectory, nodeFileSystem, readRegularFile, writeDurably } from '../files/file-system.js';
import { systemCode, withIoErrors } from '../files/io-error.js';
import { checkLiveness, maxOwnerBytes, newSaveOwner, parseSaveOwner, type SaveOwner } from './save-owner.js';

/**
 * The interval between an owner's heartbeats, and the age of the last heartbeat after which an owner counts
 * as dead, in milliseconds.
 */
const heartbeatMs = 15_000;
const silentMs = 5 * 60_000;

const recordName = 'owner.json';
const recordPattern = /^run_owner\.(\d+)$/;
/** Matches files of a process that was killed while acquiring a directory. */
const leftoverPattern = /^run_owner\.[0-9a-f-]{36}\.(new|now)$/;

interface OwnDirectoryOptions {
  /** The directory to own. It is created if it does not exist. */
  readonly directory: string;
  /**
   * The launcher's name for the job, which restarts do not change. Default: a job name that is unique to this
   * run.
   */
  readonly job?: string | undefined;
  /** How often the launcher has restarted the job. Default: 0. */
  readonly restartCount?: number;
  /** Receives a notice when the record of a silent owner on a different machine is replaced. */
  readonly onNotice?: (notice: string) => void;
}

/** The record of an owner, the file `run_owner.N/owner.json` in the directory. */
interface OwnerRecord {
  readonly number: number;
  readonly path: string;
  /** The owner that the record describes; undefined if the record cannot be read. */
  readonly owner: RunOwner | undefined;
}

/**
 * A directory of checkpoints that this process owns. Until `release`, no other run saves into it. The owner's
 * record is `run_owner.N/owner.json` in the directory. The record is published by a rename, which fails if
 * record N exists. If several processes try to own a directory, exactly one succeeds.
 *
 * An owner on this machine is alive as long as its process exists (pid and start time). An owner on a
 * different machine or in a different container writes a heartbeat every 15 seconds, between two steps. After
 * five minutes without a heartbeat, it counts as dead. A later attempt of the same job replaces the owner at
 * once, because the launcher starts an attempt only after the previous attempt has ended. A living owner
 * whose step takes more than five minutes may be replaced. Before its next publication, such an owner finds
 * the record of its successor, and fails.
 */
export class OwnedDirectory {
  readonly #options: OwnDirectoryOptions;
  readonly #owner: RunOwner;
  #number = 0;
  #heartbeat: NodeJS.Timeout | undefined;

  /**
   * Makes this process the owner of a directory.
   *
   * @throws CheckpointError MTL_CHECKPOINT_OWNED (wrong input) if another run owns it; MTL_CHECKPOINT_IO,
   *   _DENIED
   */
  static async own(options: OwnDirectoryOptions): Promise<OwnedDirectory> {
    const owned = new OwnedDirectory(options);
    await owned.#acquire();
    owned.#heartbeat = setInterval(() => void owned.#signOfLife(), heartbeatMs).unref();
    return owned;
  }

  /**
   * Throws if another process owns the directory. Used by programs that save a single checkpoint.
   *
   * @throws CheckpointError MTL_CHECKPOINT_OWNED
   */
  static async refuseOwned(directory: string): Promise<void> {
    const checker = new OwnedDirectory({ directory });
    await withIoErrors({ action: 'save into', path: directory }, async () => {
      await checker.#refuseOwners(await recordsIn(directory));
    });
  }

  /**
   * Returns true if a running process owns a directory. The function writes no file, so the age of the last
   * heartbeat from a different machine is measured with this machine's clock.
   *
   * @throws CheckpointError MTL_CHECKPOINT_IO, _DENIED
   */
  static async isOwned(directory: string): Promise<boolean> {
    const records = await withIoErrors({ action: 'list', path: directory }, () => recordsIn(directory));
    for (const { owner, path } of records) {
      const liveness = owner === undefined ? 'unknown' : checkLiveness(owner);
      if (liveness === 'alive' || liveness === 'self') return true;
      const last = liveness === 'unknown' ? await lastSignOfLife(path) : undefined;
      if (last !== undefined && Date.now() - last < silentMs) return true;
    }
    return false;
  }

  private constructor(options: OwnDirectoryOptions) {
    const { job, restartCount = 0 } = options;
    this.#options = options;
    this.#owner = newRunOwner({ job, restartCount });
  }

  get directory(): string {
    return this.#options.directory;
  }

  /**
   * The job name that this run and its earlier attempts share. The manifests of their checkpoints contain it.
   */
  get job(): string {
    return this.#owner.job;
  }

  /**
   * Checks that this process still owns the directory. A deleted record is written again, unless another run
   * owns the directory now.
   *
   * @throws CheckpointError MTL_CHECKPOINT_OWNED
   */
  async check(): Promise<void> {
    if (await this.#isRecorded()) return;
    try {
      await this.#acquire();
    } catch (error) {
      if (!(error instanceof CheckpointError) || error.code !== 'MTL_CHECKPOINT_OWNED') throw error;
      throw new CheckpointError(
        'MTL_CHECKPOINT_OWNED',
        `this run lost its save directory: ${error.message}`,
        {
          remedy: 'give every run a directory of its own; nothing more is saved by this one',
          details: { ...error.details },
          cause: error,
        },
      );
    }
  }

  /**
   * Releases the directory. If the record cannot be removed, other runs ignore it as soon as this process has
   * ended.
   */
  async release(): Promise<void> {
    clearInterval(this.#heartbeat);
    if (await this.#isRecorded()) {
      await rm(this.#path, { recursive: true, force: true }).catch(() => undefined);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  get #path(): string {
    return join(this.directory, `run_owner.${this.#number}`);
  }

  async #isRecorded(): Promise<boolean> {
    return (await readRecord(this.#path))?.token === this.#owner.token;
  }

  async #acquire(): Promise<void> {
    const { directory } = this;
    await withIoErrors({ action: 'save into', path: directory, exitCode: 2 }, async () => {
      for (;;) {
        await makeDirectory(directory, nodeFileSystem);
        const before = await recordsIn(this.directory);
        await this.#refuseOwners(before);
        this.#number = Math.max(0, ...before.map(({ number }) => number)) + 1;
        if (!(await this.#publish())) continue;
        // other processes may have become owners since the directory was listed
        const known = new Set(before.map(({ owner }) => owner?.token));
        const others = (await recordsIn(this.directory)).filter(
          ({ owner }) => owner?.token !== this.#owner.token,
        );
        try {
          await this.#refuseOwners(others.filter(({ owner }) => !known.has(owner?.token)));
        } catch (error) {
          await this.release();
          throw error;
        }
        for (const { path } of others) await rm(path, { recursive: true, force: true });
        await this.#removeLeftovers();
        return;
      }
    });
  }

  /** Writes the record under its number. Returns false if a record with this number exists. */
  async #publish(): Promise<boolean> {
    const prepared = join(this.directory, `run_owner.${this.#owner.token}.new`);
    try {
      await mkdir(prepared);
      await writeDurably({ path: join(prepared, recordName), text: this.#text, fileSystem: nodeFileSystem });
      await renameFile(prepared, this.#path);
      return true;
    } catch (error) {
      await rm(prepared, { recursive: true, force: true });
      // ENOENT: an owner has removed this temporary file, or the directory no longer exists
      if (['EEXIST', 'ENOTEMPTY', 'ENOENT'].includes(systemCode(error) ?? '')) return false;
      // Windows refuses the name of an existing directory as if the directory were in use
      if (systemCode(error) === 'MTL_FILE_IN_USE' && existsSync(this.#path)) return false;
      throw error;
    }
  }

  get #text(): string {
    return `${JSON.stringify(this.#owner)}\n`;
  }

  async #removeLeftovers(): Promise<void> {
    for (const name of await readdir(this.directory)) {
      if (leftoverPattern.test(name)) await rm(join(this.directory, name), { recursive: true, force: true });
    }
  }

  /**
   * Writes a heartbeat. Writing the record again sets its modification time from the file system's clock, so
   * that differences between the clocks of hosts do not matter.
   */
  async #signOfLife(): Promise<void> {
    try {
      const file = await open(join(this.#path, recordName), 'r+');
      await file.write(this.#text, 0).finally(() => file.close());
    } catch {
      // no action is needed here, because `check` detects a missing record
    }
  }

  async #refuseOwners(records: readonly OwnerRecord[]): Promise<void> {
    for (const record of records) {
      const { owner, path } = record;
      const liveness = owner === undefined ? 'unknown' : checkLiveness(owner);
      if (liveness === 'dead') continue;
      if (liveness !== 'unknown') throw this.#refusal(record);
      const isEarlierAttempt =
        owner?.job === this.#owner.job && owner.restartCount < this.#owner.restartCount;
      if (isEarlierAttempt) continue;
      const silent = await this.#silentFor(path);
      // undefined means that the owner has removed its record since the directory was listed
      if (silent === undefined) continue;
      if (silent < silentMs) throw this.#refusal(record, silent);
      const who = owner === undefined ? 'an unknown run' : nameOwner(owner);
      this.#options.onNotice?.(
        `${this.directory} was owned by ${who}, silent for ${Math.round(silent / 60_000)} minutes: taken over`,
      );
    }
  }

  /**
   * Returns the number of milliseconds since the last heartbeat, measured by the file system's clock;
   * undefined if the record was removed.
   */
  async #silentFor(path: string): Promise<number | undefined> {
    const probe = join(this.directory, `run_owner.${this.#owner.token}.now`);
    try {
      const last = await lastSignOfLife(path);
      if (last === undefined) return undefined;
      await writeDurably({ path: probe, text: '', fileSystem: nodeFileSystem });
      return (await stat(probe)).mtimeMs - last;
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    } finally {
      await rm(probe, { force: true });
    }
  }

  #refusal({ owner, path }: OwnerRecord, silent?: number): CheckpointError {
    const { directory } = this;
    const who = owner === undefined ? 'an unknown run' : nameOwner(owner);
    const sign =
      silent === undefined ? '' : `, whose last sign of life is ${Math.round(silent / 1000)} s old`;
    const elsewhere =
      silent === undefined
        ? ''
        : `; if that run is over, wait ${Math.ceil((silentMs - silent) / 60_000)} minutes or delete ${path}`;
    return new CheckpointError('MTL_CHECKPOINT_OWNED', `${directory} is owned by ${who}${sign}`, {
      expected: 'a directory that no other run saves into',
      remedy: `save into another directory, or end that run${elsewhere}`,
      details: { directory, record: path, ...(owner === undefined ? {} : { ...owner }) },
      exitCode: 2,
    });
  }
}

function nameOwner({ pid, host, startedAt }: RunOwner): string {
  return `a run under way, process ${pid} on ${host}, started at ${startedAt}`;
}

/** Reads the records of owners in a directory; returns an empty list if the directory does not exist. */
async function recordsIn(directory: string): Promise<OwnerRecord[]> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  });
  const numbers = names.flatMap((name) => recordPattern.exec(name)?.[1] ?? []);
  return await Promise.all(
    numbers.map(async (number) => {
      const path = join(directory, `run_owner.${number}`);
      return { number: Number(number), path, owner: await readRecord(path) };
    }),
  );
}

/**
 * Returns when an owner last wrote its record, in milliseconds since 1970; undefined if the record was
 * removed.
 */
async function lastSignOfLife(path: string): Promise<number | undefined> {
  try {
    return (await stat(join(path, recordName)).catch(() => stat(path))).mtimeMs;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function readRecord(path: string): Promise<RunOwner | undefined> {
  try {
    return parseRunOwner(await readRegularFile(join(path, recordName), { maxBytes: maxOwnerBytes }));
  } catch {
    return undefined;
  }
}

/** A process that owns a directory of checkpoints for the duration of its run. */
interface RunOwner extends SaveOwner {
  /**
   * The launcher's name for the job, which restarts do not change. If there is no launcher, the name is made
   * for this run.
   */
  readonly job: string;
  /** How often the launcher had restarted the job when the owner started. */
  readonly restartCount: number;
  /** The time when the owner started, in ISO 8601. */
  readonly startedAt: string;
}

/** Returns a record that names this process as the owner of a directory. */
function newRunOwner(options: { readonly job: string | undefined; readonly restartCount: number }): RunOwner {
  const owner = newSaveOwner({ job: options.job });
  const { job = owner.token } = options;
  return { ...owner, job, restartCount: options.restartCount, startedAt: new Date().toISOString() };
}

/** Parses the text of a record; returns undefined if the record is incomplete. */
function parseRunOwner(text: string): RunOwner | undefined {
  const owner = parseSaveOwner(text) as RunOwner | undefined;
  if (owner === undefined) return undefined;
  const strings = [owner.job, owner.startedAt];
  const isWhole = strings.every((value) => typeof value === 'string') && Number.isInteger(owner.restartCount);
  return isWhole ? owner : undefined;
}
