import { nextTurn } from './next-turn.js';
import type { Work } from './process-group.js';

/** The number of event-loop turns that each read `isDone`. Afterwards, it is read once per millisecond. */
const eagerTurns = 100;

const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Implements `await work` for every engine. The event loop continues during the wait. */
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
  /** Called by every `wait`. Default: `wait` returns immediately. */
  readonly wait?: () => void;
  /** Returns true when the result is ready. Default: the result is ready from the start. */
  readonly isDone?: () => boolean;
}

/** An operation that is implemented by callbacks. */
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
