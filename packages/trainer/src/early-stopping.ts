import type { ValidationLoss } from './metrics/validation-loss.js';

/** What early stopping remembers between evaluations; checkpoints keep it. */
export interface EarlyStoppingState {
  /** The lowest validation loss, and the iteration that had it; null before the first evaluation. */
  readonly best: { readonly loss: number; readonly iteration: number } | null;
  /** Evaluations since then. */
  readonly numWorse: number;
}

/**
 * Ends a training run when its validation loss has stopped falling. Every rank has one, with the same losses.
 */
export class EarlyStopping {
  /** Whether a value, such as one of a checkpoint, is a state. */
  static isState(value: unknown): value is EarlyStoppingState {
    const { best, numWorse } = (value ?? {}) as Partial<EarlyStoppingState>;
    const isCount = (number: unknown): boolean => Number.isSafeInteger(number) && (number as number) >= 0;
    return isCount(numWorse) && (best === null || (isCount(best?.iteration) && Number.isFinite(best?.loss)));
  }

  readonly #patience: number;
  #state: EarlyStoppingState;

  /**
   * @param options.patience evaluations in a row without a lower loss that end the run
   * @param options.state of the checkpoint that the run goes on from
   */
  constructor(options: { readonly patience: number; readonly state?: EarlyStoppingState | undefined }) {
    this.#patience = options.patience;
    this.#state = options.state ?? { best: null, numWorse: 0 };
  }

  get state(): EarlyStoppingState {
    return this.#state;
  }

  get isOver(): boolean {
    return this.#state.numWorse >= this.#patience;
  }

  /** Takes note of an evaluation. A loss that is not finite is not lower: checkpoints could not keep it. */
  observe({ loss, iteration }: Pick<ValidationLoss, 'loss' | 'iteration'>): void {
    const { best, numWorse } = this.#state;
    const isLower = Number.isFinite(loss) && (best === null || loss < best.loss);
    this.#state = isLower ? { best: { loss, iteration }, numWorse: 0 } : { best, numWorse: numWorse + 1 };
  }
}
