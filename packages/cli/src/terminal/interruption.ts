import { constants } from 'node:os';
import { MtlError } from '@mtl/errors';

/**
 * Runs work that cleans up when `signal` is aborted. The first SIGINT or SIGTERM aborts the signal with an
 * `Interruption`; the second ends the process immediately.
 */
export async function interruptible<T>(body: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stop = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) process.exit(128 + constants.signals[name]);
    controller.abort(new Interruption(name));
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  try {
    return await body(controller.signal);
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

/** The error of a command ended by a signal. The command has removed its incomplete output. */
export class Interruption extends MtlError {
  override readonly name = 'Interruption';
  /** 128 plus the signal's number, as shells expect from a process ended by a signal. */
  readonly exitStatus: number;

  constructor(signal: NodeJS.Signals) {
    super('MTL_INTERRUPTED', `stopped by ${signal}; what was being written has been removed`, {
      remedy: 'run the command again: it starts from the beginning',
    });
    this.exitStatus = 128 + constants.signals[signal];
  }
}

/**
 * Returns the exit status of an interruption, even if a different copy of this module created it; undefined
 * for other errors.
 */
export function statusOfInterruption(error: unknown): number | undefined {
  const isInterruption = MtlError.isInstance(error) && error.code === 'MTL_INTERRUPTED';
  return isInterruption ? (error as Interruption).exitStatus : undefined;
}
