import { constants } from 'node:os';
import { TrainingError } from '@mtl/errors';

/**
 * Signals that ask for an orderly stop; they come from a terminal, a launcher or scheduler, or a lost
 * connection.
 */
export const stopSignalNames = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const streams = [process.stdout, process.stderr];

/** The signal that a run in this process has received, or that another rank of the run has received. */
let signalOfProcess: NodeJS.Signals | undefined;

/**
 * Returns the signal that ended a training run in this process or arrived while one was ending; undefined if
 * there was none. After such a signal, `refuseAfterStopSignal` throws.
 */
export const stopSignal = (): NodeJS.Signals | undefined => signalOfProcess;

/** Allows training runs to start again, in a program that continues after a signal, such as a notebook. */
export function forgetStopSignal(): void {
  signalOfProcess = undefined;
}

/** Records the signal that ended a run on all ranks, received by any rank. Other reasons are ignored. */
export function rememberStopSignal(reason: string): void {
  signalOfProcess ??= stopSignalNames.find((name) => name === reason);
}

/**
 * Refuses to start a training run after a signal has ended one. The signal asks the process to end, and a
 * program that trains several runs in a loop would otherwise start the next run.
 *
 * @throws TrainingError MTL_STOP_SIGNAL
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
 * Watches for SIGINT, SIGTERM and SIGHUP: the first asks for an orderly stop, a second ends the process at
 * once. A closed terminal counts as one SIGHUP, however many it sends. So does a reader of the output that
 * ends (`| head`), or a full disk under the output: output that can no longer be written is dropped. The
 * process keeps the signal (`stopSignal`).
 */
export class StopSignals {
  /** The open instances: a process listens once for all instances. */
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
      // every thread of a process listens to the stream of its output: many listeners are no leak
      const most = stream.getMaxListeners();
      stream.setMaxListeners(0).on('error', StopSignals.#onLostOutput).setMaxListeners(most);
    }
  }

  /** The signal that asked for a stop, if any. */
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

  // the error may come before the signal
  static readonly #onLostOutput = (error: NodeJS.ErrnoException): void => {
    // a terminal or a reader may go away, but a log that could not be written is a failure
    if (error.code !== 'EIO' && error.code !== 'EPIPE') process.exitCode = 1;
    for (const each of [...StopSignals.#open]) each.#receive('SIGHUP');
  };

  #receive(signal: (typeof stopSignalNames)[number]): void {
    if (this.#received !== undefined) {
      // 128 plus the signal's number: the exit status that shells expect
      if (signal !== 'SIGHUP') process.exit(128 + constants.signals[signal]);
      return;
    }
    this.#received = signal;
    rememberStopSignal(signal);
    this.onFirst(signal);
  }
}
