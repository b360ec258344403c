import { constants } from 'node:os';
import { Interruption } from './interruption.js';

/**
 * Runs work that cleans up after itself when `signal` is aborted. The first SIGINT or SIGTERM aborts it with
 * an `Interruption`, a second one ends the process at once.
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
