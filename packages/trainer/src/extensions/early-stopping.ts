import type { EvaluatedStep } from '../metrics/training-reports.js';
import { isCount, makeStateError, type TrainerExtension } from './trainer-extension.js';

/** The state of early stopping between evaluations, stored in checkpoints. */
type EarlyStoppingState = {
  /** The lowest validation loss, and its iteration; null before the first evaluation. */
  readonly best: { readonly loss: number; readonly iteration: number } | null;
  /** The number of evaluations since the lowest loss. */
  readonly numWorse: number;
};

/**
 * Ends a training run when its validation loss has stopped falling. Every rank has its own instance of this
 * class, and all instances get the same losses.
 */
export class EarlyStopping implements TrainerExtension {
  readonly name = 'earlyStopping';
  readonly #patience: number;
  #state: EarlyStoppingState = { best: null, numWorse: 0 };

  /**
   * @param options.patience the number of consecutive evaluations without a lower loss after which the run
   * ends
   */
  constructor(options: { readonly patience: number }) {
    this.#patience = options.patience;
  }

  get state(): EarlyStoppingState {
    return this.#state;
  }

  restore(state: unknown, path: string): void {
    if (!isState(state)) throw makeStateError(this.name, path);
    this.#state = state;
  }

  get endsRun(): 'early-stopping' | undefined {
    return this.#state.numWorse >= this.#patience ? 'early-stopping' : undefined;
  }

  /**
   * Records an evaluation. A loss that is not finite does not count as lower, because checkpoints cannot
   * store it.
   */
  afterEvaluation({ loss, iteration }: EvaluatedStep): void {
    const { best, numWorse } = this.#state;
    const isLower = Number.isFinite(loss) && (best === null || loss < best.loss);
    this.#state = isLower ? { best: { loss, iteration }, numWorse: 0 } : { best, numWorse: numWorse + 1 };
  }
}

function isState(value: unknown): value is EarlyStoppingState {
  const { best, numWorse } = (value ?? {}) as Partial<EarlyStoppingState>;
  return isCount(numWorse) && (best === null || (isCount(best?.iteration) && Number.isFinite(best?.loss)));
}
