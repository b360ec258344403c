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
import { ConfigurationError } from '@mtl/errors';
import type { Variables } from './process-environment.js';

/**
 * The process that made a secret: a file of one that has ended is stale. A number is used again, a start is
 * not.
 */
interface Holder {
  readonly pid: number;
  /** Clock ticks since the machine started. */
  readonly started: string;
}

interface Content extends Holder {
  readonly secret: string;
}

/**
 * The secret that rank 0 of a job on one host makes for the others, while they join, in a file that only this
 * user can read. Jobs are told apart by where their ranks meet and by the name that torchrun gives them.
 */
export class SharedSecretFile {
  readonly path: string;

  /** @throws ConfigurationError `MTL_JOB_SECRET` where the folder is not this user's alone */
  constructor(variables: Variables) {
    const names = ['MASTER_ADDR', 'MASTER_PORT', 'MTL_STORE_PORT', 'TORCHELASTIC_RUN_ID', 'WORLD_SIZE'];
    const attempts = ['MTL_RESTART_COUNT', 'TORCHELASTIC_RESTART_COUNT'];
    const key = JSON.stringify([...names, ...attempts].map((name) => variables[name] ?? ''));
    const name = createHash('sha256').update(key).digest('hex').slice(0, 32);
    this.path = join(ownFolder(variables), name);
  }

  /**
   * Makes the secret, on rank 0. In one step: a reader finds the whole file or none.
   *
   * @throws ConfigurationError `MTL_JOB_SECRET` while another job of this user starts at the same place
   */
  create(): string {
    const content: Content = {
      secret: randomBytes(32).toString('hex'),
      pid: process.pid,
      started: startOf(process.pid)!,
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

  /** The secret of a rank 0 that runs; undefined while there is none. */
  find(): string | undefined {
    const content = this.#read();
    return content !== undefined && isRunning(content) ? content.secret : undefined;
  }

  /** Removes what this process made, once all ranks have it. */
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
      rmSync(this.path, { force: true }); // of a job that ended while it started
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

/** A folder that only this user can enter. */
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
  const found = lstatSync(path); // not what a link of another user names
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
  return startOf(pid) === started;
}

/** When a process was started; undefined for one that has ended. */
function startOf(pid: number): string | undefined {
  try {
    // the name of the program, in parentheses, may hold spaces; state is the first field behind it
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}
