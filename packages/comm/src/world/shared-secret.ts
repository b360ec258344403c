import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { ConfigurationError } from '@mtl/errors';
import type { ProcessEnvironment } from '../environment/process-environment.js';
import type { Variables } from '../environment/variable-reader.js';
import { rankZeroNeverCame, waitNoticesMs } from './wait-for-ranks.js';

const lookMs = 50;

/**
 * Returns true for a job whose user need not provide a secret. In such a job, all processes are on one host,
 * so that a file can contain the secret. torchrun or a script has started the processes with RANK and
 * WORLD_SIZE.
 */
export function sharesSecretFile(
  { launcher, worldSize, localWorldSize }: ProcessEnvironment,
  { MTL_JOB_SECRET: secret, MTL_JOB_SECRET_FILE: file }: Variables,
): boolean {
  const isKnown = Boolean(secret) || Boolean(file);
  return !isKnown && worldSize === localWorldSize && ['torchrun', 'variables'].includes(launcher);
}

/**
 * Returns the secret of the job. Rank 0 creates it, and the other ranks wait for it.
 * @throws CommunicationError `MTL_TIMEOUT`
 */
export async function sharedSecret(options: {
  readonly file: SharedSecretFile;
  readonly environment: ProcessEnvironment;
  readonly timeoutMs: number;
  readonly onWait: (text: string) => void;
}): Promise<string> {
  const { file, environment, timeoutMs, onWait } = options;
  const { rank } = environment;
  if (rank === 0) return file.create();
  const started = performance.now();
  let noticeAtMs: number = waitNoticesMs.first;
  for (;;) {
    const secret = file.find();
    if (secret !== undefined) return secret;
    const waitedMs = performance.now() - started;
    if (waitedMs >= timeoutMs) {
      throw rankZeroNeverCame({
        rank,
        waitedMs,
        detail: ` for its file ${file.path}`,
        alike: 'MASTER_ADDR, MASTER_PORT and WORLD_SIZE',
      });
    }
    if (waitedMs >= noticeAtMs) {
      onWait(
        `rank ${rank} has waited ${(waitedMs / 1000).toFixed(0)} s for rank 0, which holds the store of the job`,
      );
      noticeAtMs += waitNoticesMs.next;
    }
    await pause(lookMs);
  }
}

/**
 * The process that created a secret. When this process has ended, the file is stale. A later process may
 * reuse the process id, so the record also contains the start time.
 */
interface Holder {
  readonly pid: number;
  /** The start time of the process, in clock ticks since the machine started. */
  readonly started: string;
}

interface Content extends Holder {
  readonly secret: string;
}

/**
 * A secret that rank 0 creates for the other ranks of a job on one host. Until all ranks have joined, the
 * secret is in a file that only this user can read. The file name is a hash of the address at which the
 * ranks meet, torchrun's job name, the number of ranks, and how often the job has restarted.
 */
export class SharedSecretFile {
  readonly path: string;

  /** @throws ConfigurationError `MTL_JOB_SECRET` if other users can access the folder */
  constructor(variables: Variables) {
    const names = ['MASTER_ADDR', 'MASTER_PORT', 'MTL_STORE_PORT', 'TORCHELASTIC_RUN_ID', 'WORLD_SIZE'];
    const attempts = ['MTL_RESTART_COUNT', 'TORCHELASTIC_RESTART_COUNT'];
    const key = JSON.stringify([...names, ...attempts].map((name) => variables[name] ?? ''));
    const name = createHash('sha256').update(key).digest('hex').slice(0, 32);
    this.path = join(ownFolder(variables), name);
  }

  /**
   * Creates the secret, on rank 0. The file appears atomically, so that a reader never sees an incomplete
   * file.
   *
   * @throws ConfigurationError `MTL_JOB_SECRET` if another job of this user is starting at the same address
   */
  create(): string {
    const content: Content = {
      secret: randomBytes(32).toString('hex'),
      pid: process.pid,
      started: readStartTime(process.pid)!,
    };
    const part = `${this.path}.${process.pid}.${randomBytes(8).toString('hex')}`;
    writeFileSync(part, JSON.stringify(content), { mode: 0o600, flag: 'wx' });
    try {
      this.#link(part);
    } finally {
      rmSync(part);
    }
    return content.secret;
  }

  /** Returns the secret if its creator, a rank 0, is running; otherwise undefined. */
  find(): string | undefined {
    const content = this.#read();
    return content !== undefined && isRunning(content) ? content.secret : undefined;
  }

  /** Removes the file if this process created it. Called after all ranks have read the file. */
  remove(): void {
    if (this.#read()?.pid === process.pid) rmSync(this.path, { force: true });
  }

  #link(part: string): void {
    for (;;) {
      try {
        linkSync(part, this.path);
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      const other = this.#read();
      if (other !== undefined && isRunning(other) && other.pid !== process.pid) {
        throw secretError(`process ${other.pid} starts a job at the same MASTER_ADDR and MASTER_PORT`, {
          remedy: 'give each job a MASTER_PORT of its own, or an MTL_JOB_SECRET',
        });
      }
      rmSync(this.path, { force: true }); // the file belongs to a job that ended while it was starting
    }
  }

  #read(): Content | undefined {
    let file: number;
    try {
      file = openSync(this.path, constants.O_RDONLY | constants.O_NOFOLLOW);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw secretError(`${this.path} cannot be read`, { cause: error });
    }
    try {
      const { uid, mode } = fstatSync(file);
      if (uid !== process.geteuid!() || (mode & 0o077) !== 0)
        throw secretError(`${this.path} is not a file that this user alone can read`);
      return JSON.parse(readFileSync(file, 'utf8')) as Content;
    } finally {
      closeSync(file);
    }
  }
}

/** Creates a folder that only this user can enter, unless it exists, and returns its path. */
function ownFolder(variables: Variables): string {
  const uid = process.geteuid!();
  const path = variables.XDG_RUNTIME_DIR
    ? join(variables.XDG_RUNTIME_DIR, 'mtl')
    : join(tmpdir(), `mtl-${uid}`);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw secretError(`${path} cannot be made`, { cause: error });
  }
  const found = lstatSync(path); // lstat, because it does not follow a link that another user may have made
  if (found.isDirectory() && found.uid === uid && (found.mode & 0o077) === 0) return path;
  throw secretError(`${path} is not a folder that this user alone can enter`);
}

function secretError(
  message: string,
  { remedy, cause }: { readonly remedy?: string; readonly cause?: unknown } = {},
): ConfigurationError {
  return new ConfigurationError('MTL_JOB_SECRET', message, {
    expected: 'a file of mode 0600 in a folder of mode 0700, which rank 0 makes for a job on one host',
    remedy: remedy ?? 'give all processes MTL_JOB_SECRET, or an XDG_RUNTIME_DIR that belongs to this user',
    ...(cause === undefined ? {} : { cause }),
  });
}

function isRunning({ pid, started }: Holder): boolean {
  return readStartTime(pid) === started;
}

/** Returns the start time of a process; undefined if it has ended. */
function readStartTime(pid: number): string | undefined {
  try {
    // the program's name, in parentheses, may contain spaces, so the fields are counted from the closing
    // parenthesis: the first field after it is the state
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}
