import { TrainingError } from '@mtl/errors';
import type { LossScaler } from '@mtl/optimizer';
import type { StepMetrics } from './metrics/training-reports.js';

type Reason = 'overflow' | 'refused' | 'left out';

/** A common loss scale at which few models overflow. */
const usualScale = 65_536;

/**
 * Detects a run whose steps were all skipped. Every rank has its own instance of this class, and all
 * instances get the same steps.
 */
export class UnchangedWeights {
  readonly #lossScaler: Pick<LossScaler, 'scale' | 'isDynamic'>;
  readonly #firstScale: number;
  readonly #counts = new Map<Reason, number>();
  #isChanged = false;

  /** @param lossScaler the loss scaler with its state at the start of the run */
  constructor(lossScaler: Pick<LossScaler, 'scale' | 'isDynamic'>) {
    this.#lossScaler = lossScaler;
    this.#firstScale = lossScaler.scale;
  }

  step({ skipped, isLeftOut, gradNorm }: Pick<StepMetrics, 'skipped' | 'isLeftOut' | 'gradNorm'>): void {
    if (!skipped) this.#isChanged = true;
    if (this.#isChanged) return;
    const isOverflow = this.#lossScaler.isDynamic && !Number.isFinite(gradNorm);
    const reason = isLeftOut === true ? 'left out' : isOverflow ? 'overflow' : 'refused';
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + 1);
  }

  /** True if the run had steps and no step changed the weights. */
  get isAll(): boolean {
    return !this.#isChanged && this.#counts.size > 0;
  }

  /**
   * Returns the error to throw if no step has changed the weights. It contains the number of steps, the cause
   * and the remedy.
   */
  error(): TrainingError {
    const counts = [...this.#counts];
    const numSteps = counts.reduce((sum, [, count]) => sum + count, 0);
    const { scale } = this.#lossScaler;
    const first = this.#firstScale;
    const whys: Readonly<Record<Reason, string>> = {
      overflow: `the gradients of %s overflowed, and the loss scale fell from ${first} to ${scale}`,
      refused: '%s had a loss or a gradient norm that is not accepted',
      'left out': '%s are left out by --iterations-to-skip',
    };
    const remedies: Readonly<Record<Reason, string>> = {
      overflow: `pass --initial-loss-scale ${Math.min(scale, usualScale)}, train for more steps, or use --bf16`,
      refused: 'raise --grad-norm-skip-threshold or --loss-spike-factor, or pass --loss-spike-policy report',
      'left out': 'name fewer steps with --iterations-to-skip',
    };
    const why = counts.map(([reason, count]) => whys[reason].replace('%s', `${count}`)).join('; ');
    return new TrainingError('MTL_NO_UPDATE', `none of the ${numSteps} steps changed the weights: ${why}`, {
      expected: 'at least one step that is not skipped; no checkpoint was saved of the weights as they were',
      remedy: counts.map(([reason]) => remedies[reason]).join('; '),
      details: { steps: numSteps, lossScale: scale },
    });
  }
}
