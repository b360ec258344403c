import { constants } from 'node:os';
import { TrainingError } from '@mtl/errors';

/**
 * Signals that request an orderly end of the run. They are sent by a terminal, launcher or scheduler, or
 * because of a lost connection.
 */
export const stopSignalNames = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const streams = [process.stdout, process.stderr];

/** The signal that ended a run in this process. It may have been received by a different rank. */
let signalOfProcess: NodeJS.Signals | undefined;

/**
 * Returns the signal that ended a training run in this process, or that arrived while a run was ending;
 * undefined if there was none. After such a signal, `refuseAfterStopSignal` throws.
 */
export const stopSignal = (): NodeJS.Signals | undefined => signalOfProcess;

/** Allows training runs to start again, in a program that continues after a signal, such as a notebook. */
export function forgetStopSignal(): void {
  signalOfProcess = undefined;
}

/**
 * Records the signal that ended a run on all ranks, regardless of the rank that received it. If `reason` is
 * not a signal, does nothing.
 */
export function rememberStopSignal(reason: string): void {
  signalOfProcess ??= stopSignalNames.find((name) => name === reason);
}

/**
 * Throws if a signal has ended a training run, so that no further run starts. The signal asks the process to
 * end. Without this check, a program that trains several runs in a loop would start the next run.
 *
 * @throws TrainingError `MTL_STOP_SIGNAL`
 */
export function refuseAfterStopSignal(): void {
  if (signalOfProcess === undefined) return;
  const message = `${signalOfProcess} has asked this process to stop: no further training run starts`;
  throw new TrainingError('MTL_STOP_SIGNAL', message, {
    expected: 'a program that ends after a run whose result has a signal as its reason',
    remedy: 'end it there; one that goes on all the same calls forgetStopSignal() of @mtl/runs',
    details: { signal: signalOfProcess },
  });
}

/**
 * Watches for SIGINT, SIGTERM and SIGHUP. The first signal requests an orderly end of the run. The second
 * signal ends the process immediately. The process remembers the signal (see `stopSignal`).
 *
 * A closed terminal counts as one SIGHUP, even if it sends several signals. A failed write of output also
 * counts as a SIGHUP, and the output is dropped, because either the reader has ended (`| head`) or the disk
 * is full.
 */
export class StopSignals {
  /** All open instances. The process has one listener per signal, which informs all instances. */
  static readonly #open = new Set<StopSignals>();
  static readonly #handlers = new Map(
    stopSignalNames.map((signal) => [
      signal,
      (): void => {
        for (const each of [...StopSignals.#open]) each.#receive(signal);
      },
    ]),
  );

  #received: NodeJS.Signals | undefined;

  constructor(private readonly onFirst: (signal: NodeJS.Signals) => void = () => {}) {
    StopSignals.#open.add(this);
    if (StopSignals.#open.size > 1) return;
    for (const [signal, handler] of StopSignals.#handlers) process.on(signal, handler);
    for (const stream of streams) {
      // the limit is raised only for the listener below; every thread listens to the output stream, so many
      // listeners do not indicate a leak
      const most = stream.getMaxListeners();
      stream.setMaxListeners(0).on('error', StopSignals.#onLostOutput).setMaxListeners(most);
    }
  }

  /** The signal that requested a stop; undefined if there was none. */
  get received(): NodeJS.Signals | undefined {
    return this.#received;
  }

  close(): void {
    if (!StopSignals.#open.delete(this) || StopSignals.#open.size > 0) return;
    for (const [signal, handler] of StopSignals.#handlers) process.off(signal, handler);
    for (const stream of streams) stream.off('error', StopSignals.#onLostOutput);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  // if a terminal is lost, the error may arrive before the signal
  static readonly #onLostOutput = (error: NodeJS.ErrnoException): void => {
    // EIO and EPIPE mean that the terminal or reader is gone, which is normal; all other errors are failures,
    // because the log is incomplete
    if (error.code !== 'EIO' && error.code !== 'EPIPE') process.exitCode = 1;
    for (const each of [...StopSignals.#open]) each.#receive('SIGHUP');
  };

  #receive(signal: (typeof stopSignalNames)[number]): void {
    if (this.#received !== undefined) {
      // shells expect the exit status 128 plus the signal's number
      if (signal !== 'SIGHUP') process.exit(128 + constants.signals[signal]);
      return;
    }
    this.#received = signal;
    rememberStopSignal(signal);
    this.onFirst(signal);
  }
}
