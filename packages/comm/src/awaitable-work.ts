import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import type { Work } from './process-group.js';

/** Turns of the event loop after which an awaited operation is asked for every millisecond instead. */
const eagerTurns = 100;

/** Implements for every engine that `await work` waits while the event loop goes on. */
export abstract class AwaitableWork implements Work {
  abstract readonly isDone: boolean;

  abstract wait(): void;

  // biome-ignore lint/suspicious/noThenProperty: a work is meant to be awaited
  then<Result = void, Other = never>(
    onDone?: (() => Result | PromiseLike<Result>) | null,
    onError?: ((error: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<Result | Other> {
    return this.#done().then(onDone, onError);
  }

  async #done(): Promise<void> {
    for (let turn = 0; !this.isDone; turn++) await (turn < eagerTurns ? nextTurn() : pause(1));
    this.wait();
  }
}

export interface CallbackWorkOptions {
  /** Called by every `wait`. Default: there is nothing to wait for. */
  readonly wait?: () => void;
  /** Default: the result is there from the start. */
  readonly isDone?: () => boolean;
}

/** Work that functions carry out. */
export class CallbackWork extends AwaitableWork {
  readonly #options: CallbackWorkOptions;

  constructor(options: CallbackWorkOptions = {}) {
    super();
    this.#options = options;
  }

  get isDone(): boolean {
    return this.#options.isDone?.() ?? true;
  }

  wait(): void {
    this.#options.wait?.();
  }
}
