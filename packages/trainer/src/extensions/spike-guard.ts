import { TrainingError } from '@mtl/errors';
import { median } from '@mtl/pipeline/internal';
import type { TrainingEvent } from '../metrics/training-reports.js';
import type { NameOfTotal } from '../steps/loss-kinds.js';
import {
  isCount,
  type MeasuredStep,
  makeStateError,
  type StepVerdict,
  type TrainerExtension,
} from './trainer-extension.js';

/** The origin of samples. */
interface SampleSource {
  /**
   * The prefix of an indexed dataset, or the name of any other source in which the documents are numbered.
   */
  readonly source: string;
  /** Numbers of the documents, ascending, from 0. */
  readonly documents: readonly number[];
}

/** The maximum number of documents that a message lists. A record lists all documents. */
const mostNamed = 8;

/** Formats sources as text: `corpus_text_document: documents 3, 17`. */
function sourcesText(sources: readonly SampleSource[]): string {
  return sources
    .map(({ source, documents }) => {
      const named = documents.slice(0, mostNamed).join(', ');
      const rest = documents.length - mostNamed;
      return `${source}: document${documents.length === 1 ? '' : 's'} ${named}${rest > 0 ? ` and ${rest} more` : ''}`;
    })
    .join('; ');
}

/** The state of the guard between steps, which checkpoints store. */
type SpikeGuardState = {
  /** The finite losses of the last steps, the newest last. */
  readonly losses: readonly number[];
  readonly gradientNorms: readonly number[];
  /**
   * The number of rejected updates in the current series of spikes. A series ends when a whole window of
   * steps passes without a rejected update.
   */
  readonly numRefused: number;
  /** The number of steps since the last rejected spike. */
  readonly numSteps: number;
};

export interface SpikeGuardOptions {
  /** The action that follows a spike. */
  readonly policy: 'ignore' | 'report' | 'skip' | 'roll-back';
  /**
   * The number of previous steps with which a step is compared. Until the window is full, no step is a spike.
   */
  readonly window: number;
  /**
   * A loss is a spike if it exceeds the median by more than `factor` standard deviations, which are estimated
   * from the median absolute deviation. For gradient norms, the limit is 4 times as far above the median.
   * From the third consecutive high step on, both limits are a quarter as far above the median.
   */
  readonly factor: number;
  /**
   * The maximum number of spikes in a series whose update is refused (skipped or rolled back). A series ends
   * when a whole window of steps passes without a refused update.
   */
  readonly limit: number;
  /** A step with a gradient norm above this value is skipped, whatever the policy. */
  readonly gradientNormSkipThreshold?: number | undefined;
  /** The name of the total loss in records. Default: `lm_loss`. */
  readonly nameOfTotal?: NameOfTotal | undefined;
  /** Returns the documents of the samples in a step. Default: reports do not name documents. */
  readonly listSources?: ((step: MeasuredStep) => readonly SampleSource[]) | undefined;
}

/** A value of a step that is not finite, or that is far above the quantity's recent values. */
interface Excess {
  readonly quantity: 'loss' | 'gradient norm';
  readonly value: number;
  /** The median of recent steps, and the limit for spikes. Both are absent for a value that is not finite. */
  readonly median?: number;
  readonly limit?: number;
}

/**
 * The spread is at least `leastSpreads` times the median, and the factor is multiplied by `shareOfFactor`.
 * Both constants were measured on healthy runs (docs/studies/loss-spikes.md): losses stay close to their
 * distribution, but individual gradient norms can be many times larger than usual without an effect on the
 * loss.
 */
const leastSpreads = { loss: 0.005, 'gradient norm': 0.1 } as const;
const shareOfFactor = { loss: 1, 'gradient norm': 4 } as const;

/**
 * The number of consecutive steps with a high loss or gradient norm after which a lower limit applies. A rare
 * sample affects only a single step, so a longer series must have a different cause.
 */
const numLasting = 3;
const lessIfLasting = 4;

const decisionWords = { update: 'reported', skip: 'skipped', 'roll-back': 'not taken' } as const;

/**
 * Detects steps whose loss or gradient norm is far above its recent values, and rejects their updates if the
 * policy requires it. The values of spikes are also recorded as recent values. Therefore a high level that
 * lasts for half a window is no longer a spike.
 */
export class SpikeGuard implements TrainerExtension {
  readonly name = 'spikes';
  readonly #options: SpikeGuardOptions;
  #losses: RecentValues;
  #gradientNorms: RecentValues;
  #numRefused = 0;
  #numSteps = 0;

  constructor(options: SpikeGuardOptions) {
    this.#options = options;
    this.#losses = this.#recent([], 'loss');
    this.#gradientNorms = this.#recent([], 'gradient norm');
  }

  /** True if the guard may reject an update. */
  get decides(): boolean {
    const { policy, gradientNormSkipThreshold } = this.#options;
    return policy === 'skip' || policy === 'roll-back' || gradientNormSkipThreshold !== undefined;
  }

  get state(): SpikeGuardState {
    return {
      losses: [...this.#losses.values],
      gradientNorms: [...this.#gradientNorms.values],
      numRefused: this.#numRefused,
      numSteps: this.#numSteps,
    };
  }

  restore(state: unknown, path: string): void {
    if (!isState(state)) throw makeStateError(this.name, path);
    this.#losses = this.#recent(state.losses, 'loss');
    this.#gradientNorms = this.#recent(state.gradientNorms, 'gradient norm');
    this.#numRefused = state.numRefused;
    this.#numSteps = state.numSteps;
  }

  #recent(values: readonly number[], quantity: Excess['quantity']): RecentValues {
    return new RecentValues({
      window: this.#options.window,
      values,
      leastSpread: leastSpreads[quantity],
    });
  }

  /** @throws TrainingError `MTL_LOSS_SPIKE` if a series has more rejected spikes than the limit */
  judge(step: MeasuredStep): StepVerdict {
    const excesses = this.excesses(step);
    const isAboveThreshold = this.#isAboveThreshold(step);
    this.#losses.add(step.loss);
    this.#gradientNorms.add(step.gradientNorm);
    const { policy, limit } = this.#options;
    const isRefused = excesses.length > 0 && (policy === 'skip' || policy === 'roll-back');
    const action = isRefused ? policy : isAboveThreshold ? 'skip' : 'update';
    this.#count(isRefused);
    if (this.#numRefused > limit) throw this.#tooMany(step, excesses);
    const isNoted = excesses.length > 0 || isAboveThreshold;
    return { action, events: isNoted ? [this.#event(step, { excesses, action })] : [] };
  }

  isSuspicious(step: Pick<MeasuredStep, 'loss' | 'gradientNorm'>): boolean {
    const areFinite = Number.isFinite(step.loss) && Number.isFinite(step.gradientNorm);
    return !areFinite || this.excesses(step).length > 0 || this.#isAboveThreshold(step);
  }

  /**
   * Returns the quantities of a step that are not finite, or far above their values in recent steps. Returns
   * an empty list if the policy ignores spikes.
   */
  excesses({ loss, gradientNorm }: Pick<MeasuredStep, 'loss' | 'gradientNorm'>): readonly Excess[] {
    const { policy, factor } = this.#options;
    if (policy === 'ignore') return [];
    const quantities = [
      { quantity: 'loss', value: loss, recent: this.#losses },
      { quantity: 'gradient norm', value: gradientNorm, recent: this.#gradientNorms },
    ] as const;
    return quantities.flatMap(({ quantity, value, recent }): Excess[] => {
      if (!Number.isFinite(value)) return [{ quantity, value }];
      const distribution = recent.distribution();
      if (distribution === undefined) return [];
      const { median, spread } = distribution;
      const distance = factor * shareOfFactor[quantity] * spread;
      const row = [...recent.values.slice(1 - numLasting), value];
      const isLasting = row.every((one) => one > median + distance / lessIfLasting);
      const limit = median + (isLasting ? distance / lessIfLasting : distance);
      return value > limit ? [{ quantity, value, median, limit }] : [];
    });
  }

  #isAboveThreshold({ gradientNorm }: Pick<MeasuredStep, 'gradientNorm'>): boolean {
    const { gradientNormSkipThreshold: threshold } = this.#options;
    return threshold !== undefined && Number.isFinite(gradientNorm) && gradientNorm > threshold;
  }

  /**
   * Counts rejected spikes. The count restarts if more steps than a window have passed since the last
   * rejected spike.
   */
  #count(isRefused: boolean): void {
    this.#numSteps += 1;
    if (this.#numSteps > this.#options.window) this.#numRefused = 0;
    if (!isRefused) return;
    this.#numRefused += 1;
    this.#numSteps = 0;
  }

  #event(
    step: MeasuredStep,
    { excesses, action }: { readonly excesses: readonly Excess[]; readonly action: StepVerdict['action'] },
  ): TrainingEvent {
    const { iteration, loss, gradientNorm, consumedSamples, globalBatchSize } = step;
    const { gradientNormSkipThreshold: threshold, listSources, nameOfTotal = 'lm_loss' } = this.#options;
    const metricNames = { loss: nameOfTotal, 'gradient norm': 'grad_norm' } as const;
    const sources = listSources?.(step) ?? [];
    const why =
      excesses.length > 0
        ? excesses.map((excess) => this.#formatExcess(excess)).join(', ')
        : `gradient norm ${shown(gradientNorm)} above --grad-norm-skip-threshold ${threshold}`;
    const samples = `samples ${consumedSamples} to ${consumedSamples + globalBatchSize - 1}`;
    const from = sources.length === 0 ? '' : ` are of ${sourcesText(sources)}`;
    const limits = excesses.flatMap(({ quantity, median, limit }) =>
      limit === undefined
        ? []
        : [
            [`${metricNames[quantity]}_median`, median],
            [`${metricNames[quantity]}_limit`, limit],
          ],
    );
    return {
      type: 'spike',
      iteration,
      text: `spike at iteration ${iteration}: ${why}; ${decisionWords[action]}; its ${samples}${from}`,
      fields: {
        action,
        [nameOfTotal]: loss,
        grad_norm: gradientNorm,
        ...Object.fromEntries(limits),
        ...(excesses.length === 0 ? { grad_norm_limit: threshold } : {}),
        first_sample: consumedSamples,
        num_samples: globalBatchSize,
        sources,
      },
    };
  }

  #formatExcess({ quantity, value, median, limit }: Excess): string {
    if (limit === undefined) return `${quantity} ${value}`;
    const { window } = this.#options;
    return `${quantity} ${shown(value)} (median of the ${window} steps before ${shown(median!)}, limit ${shown(limit)})`;
  }

  #tooMany(step: MeasuredStep, excesses: readonly Excess[]): TrainingError {
    const { policy, window, limit } = this.#options;
    const { iteration, loss, gradientNorm } = step;
    const why = excesses.map((excess) => this.#formatExcess(excess)).join(', ');
    return new TrainingError(
      'MTL_LOSS_SPIKE',
      `iteration ${iteration}: spike number ${limit + 1} with less than ${window} steps between two: ${why}`,
      {
        expected: `at most ${limit} spikes in a row (--loss-spike-limit)`,
        remedy:
          'resume from an older checkpoint (--ckpt-step) with a lower --lr, more warm-up or --clip-grad; ' +
          `where the run is as it should be, raise --loss-spike-factor, or pass --loss-spike-policy ${policy === 'skip' ? 'report' : 'skip'}`,
        details: { iteration, loss, gradientNorm },
      },
    );
  }
}

function isState(value: unknown): value is SpikeGuardState {
  const { losses, gradientNorms, numRefused, numSteps } = (value ?? {}) as Partial<SpikeGuardState>;
  const areNumbers = (values: unknown): boolean => Array.isArray(values) && values.every(Number.isFinite);
  return areNumbers(losses) && areNumbers(gradientNorms) && isCount(numRefused) && isCount(numSteps);
}

/** Formats a value with six digits, which are enough for a comparison. */
const shown = (value: number): string => String(Number(value.toPrecision(6)));

/**
 * The factor that converts a median absolute deviation to the standard deviation of a normal distribution. It
 * is 1 divided by the 75 % quantile of the standard normal distribution.
 */
const deviationsOfMedian = 1.4826;
/** The distribution of recent values. */
interface RecentDistribution {
  readonly median: number;
  /** An estimate of the spread, which for a normal distribution is equal to the standard deviation. */
  readonly spread: number;
}

interface RecentValuesOptions {
  /** The number of recent values that are kept. */
  readonly window: number;
  /**
   * The minimum spread, as a fraction of the median. The median absolute deviation of almost constant values
   * is close to 0, so without a minimum, any change would count as a spike.
   */
  readonly leastSpread: number;
  /** Earlier values, the newest last. Default: none. */
  readonly values?: readonly number[];
}

/**
 * The last values of a quantity, with a robust test for values far above them. A few spikes hardly change the
 * median and the median absolute deviation (Leys et al. 2013).
 */
class RecentValues {
  readonly #window: number;
  readonly #leastSpread: number;
  readonly #values: number[];

  constructor({ window, leastSpread, values = [] }: RecentValuesOptions) {
    this.#window = window;
    this.#leastSpread = leastSpread;
    this.#values = values.slice(-window);
  }

  /** The kept values, the newest last. */
  get values(): readonly number[] {
    return this.#values;
  }

  /** Adds a value, unless it is not finite. */
  add(value: number): void {
    if (!Number.isFinite(value)) return;
    this.#values.push(value);
    if (this.#values.length > this.#window) this.#values.shift();
  }

  /** Returns the distribution of the kept values; undefined before the window is full. */
  distribution(): RecentDistribution | undefined {
    if (this.#values.length < this.#window) return undefined;
    const middle = median(this.#values);
    const deviation = median(this.#values.map((value) => Math.abs(value - middle)));
    const spread = Math.max(deviationsOfMedian * deviation, this.#leastSpread * Math.abs(middle));
    return { median: middle, spread };
  }
}
