import { ConfigurationError, nearestName } from '@mtl/errors';

/** How the learning rate decreases from its peak after warm-up. */
export type LearningRateDecayStyle = 'constant' | 'linear' | 'cosine' | 'inverse-square-root' | 'WSD';

/** How the learning rate decreases in the last phase of warm-up-stable-decay (WSD). */
type WsdDecayStyle = 'exponential' | 'linear' | 'cosine' | 'minus_sqrt';

/**
 * Options of a schedule over steps. The caller chooses if a step is an iteration or a sample, but all counts
 * and the argument of `at` must use the same unit. If the global batch size is constant, both units give the
 * same rates.
 */
export interface LearningRateScheduleOptions {
  /** The peak, reached when warm-up ends (--lr). */
  readonly maxLearningRate: number;
  /** The learning rate at which decay ends, also called the floor (--min-lr). Default: 0. */
  readonly minLearningRate?: number;
  /** The learning rate at which warm-up begins (--lr-warmup-init). Default: 0. */
  readonly initialLearningRate?: number;
  readonly decayStyle: LearningRateDecayStyle;
  /**
   * The number of steps of linear warm-up. It may be a fraction, because --lr-warmup-fraction can produce
   * one.
   */
  readonly warmupSteps?: number;
  /**
   * The step at which decay is complete, counted from the start of warm-up (--lr-decay-iters or
   * --lr-decay-samples).
   */
  readonly decaySteps: number;
  /** The number of steps in the last phase of WSD (--lr-wsd-decay-iters). Required only for that style. */
  readonly wsdDecaySteps?: number;
  /** `exponential` unless given. */
  readonly wsdDecayStyle?: WsdDecayStyle;
}

/**
 * Returns the fraction of (peak - floor) that remains when the fraction `done` (0 to 1) of a decay phase is
 * over.
 */
const remainingShare: Readonly<Record<WsdDecayStyle, (done: number) => number>> = {
  linear: (done) => 1 - done,
  cosine: (done) => 0.5 * (Math.cos(Math.PI * done) + 1),
  exponential: (done) => 2 * 0.5 ** done - 1,
  minus_sqrt: (done) => 1 - Math.sqrt(done),
};

/**
 * The learning rate of each step, with the rules of Megatron-LM's `OptimizerParamScheduler` (GPT-2's recipe
 * in Shoeybi 2019, section 4: linear warm-up, then one cosine to a floor). Let p = peak, f = floor, w =
 * warm-up steps, d = decay steps, and t = the number of steps before the current step. The learning rate is:
 *
 * - warm-up, t <= w: linear from the initial rate to p, so that the first step of a run uses the initial
 *   rate;
 * - `constant`: always p;
 * - t > d: f for every style except `constant`;
 * - `linear`, `cosine`: f + (p - f) times the remaining share of x = (t - w) / (d - w);
 * - `inverse-square-root`: max(f, p * sqrt(max(w, 1) / max(t, 1)));
 * - `WSD`: p until d - wsdDecaySteps, then down to f by the WSD decay style.
 *
 * The rate is a pure function of `t`, so a resumed run needs only the number of steps taken. Megatron does
 * not count steps that were skipped because of an overflow. To do the same, pass the number of applied steps.
 */
export class LearningRateSchedule {
  readonly #options: Required<Omit<LearningRateScheduleOptions, 'wsdDecaySteps'>> & { wsdDecaySteps: number };

  /** @throws ConfigurationError `MTL_LEARNING_RATE` when the options contradict each other. */
  constructor(options: LearningRateScheduleOptions) {
    this.#options = {
      minLearningRate: 0,
      initialLearningRate: 0,
      warmupSteps: 0,
      wsdDecaySteps: 0,
      wsdDecayStyle: 'exponential',
      ...options,
    };
    checkStyles(this.#options);
    checkLearningRates(this.#options);
    checkSteps(this.#options);
  }

  /**
   * Returns the learning rate of the step that follows `stepsTaken` steps.
   *
   * @param stepsTaken the number of iterations or samples so far, an integer; 0 for the first step
   */
  at(stepsTaken: number): number {
    const {
      maxLearningRate: peak,
      minLearningRate: floor,
      decayStyle,
      warmupSteps,
      decaySteps,
    } = this.#options;
    if (warmupSteps > 0 && stepsTaken <= warmupSteps) {
      const start = this.#options.initialLearningRate;
      return start + ((peak - start) * stepsTaken) / warmupSteps;
    }
    if (decayStyle === 'constant') return peak;
    if (stepsTaken > decaySteps) return floor;
    if (decayStyle === 'inverse-square-root') {
      const decayed = (peak * Math.sqrt(Math.max(warmupSteps, 1))) / Math.sqrt(Math.max(stepsTaken, 1));
      return Math.max(floor, decayed);
    }
    if (decayStyle === 'WSD') return floor + this.#wsdShare(stepsTaken) * (peak - floor);
    const done = (stepsTaken - warmupSteps) / (decaySteps - warmupSteps);
    return floor + remainingShare[decayStyle](done) * (peak - floor);
  }

  #wsdShare(stepsTaken: number): number {
    const { decaySteps, wsdDecaySteps, wsdDecayStyle } = this.#options;
    const decayStart = decaySteps - wsdDecaySteps;
    if (stepsTaken <= decayStart) return 1;
    return remainingShare[wsdDecayStyle]((stepsTaken - decayStart) / wsdDecaySteps);
  }
}

function refuse(message: string, expected: string, remedy: string): never {
  throw new ConfigurationError('MTL_LEARNING_RATE', message, { expected, remedy });
}

const decayStyles = ['constant', 'linear', 'cosine', 'inverse-square-root', 'WSD'] as const;

function checkStyles({ decayStyle, wsdDecayStyle }: Required<LearningRateScheduleOptions>): void {
  for (const [name, style, styles] of [
    ['decayStyle', decayStyle, decayStyles],
    ['wsdDecayStyle', wsdDecayStyle, Object.keys(remainingShare)],
  ] as const) {
    if (styles.includes(style as never)) continue;
    const near = nearestName(String(style), styles);
    refuse(`unknown ${name} ${String(style)}`, styles.join(', '), `pass ${name} ${near ?? styles[0]}`);
  }
}

function checkLearningRates(options: Required<LearningRateScheduleOptions>): void {
  const { maxLearningRate: peak, minLearningRate: floor, initialLearningRate: start } = options;
  for (const [name, value] of [
    ['maxLearningRate', peak],
    ['minLearningRate', floor],
    ['initialLearningRate', start],
  ] as const) {
    if (!Number.isFinite(value) || value < 0) {
      refuse(`${name} is ${value}`, 'a number of 0 or more', `pass ${name} with a number such as 1.5e-4`);
    }
  }
  if (floor > peak) {
    refuse(
      `minLearningRate ${floor} is above maxLearningRate ${peak}`,
      `at most ${peak}`,
      `pass minLearningRate ${Number((peak / 10).toPrecision(12))}`,
    );
  }
  if (start > peak) {
    refuse(
      `initialLearningRate ${start} is above maxLearningRate ${peak}`,
      `at most ${peak}`,
      'pass initialLearningRate 0',
    );
  }
}

function checkSteps(options: Required<LearningRateScheduleOptions>): void {
  const { warmupSteps, decaySteps, decayStyle, wsdDecaySteps } = options;
  if (!(Number.isFinite(decaySteps) && decaySteps > 0)) {
    refuse(
      `the learning rate decays over ${decaySteps} steps`,
      'more than 0 steps',
      'pass decaySteps with a positive number',
    );
  }
  if (!(warmupSteps >= 0 && warmupSteps < decaySteps)) {
    refuse(
      `warm-up takes ${warmupSteps} of the ${decaySteps} steps the learning rate is scheduled over`,
      `at least 0 and fewer than ${decaySteps}`,
      'shorten warm-up (warmupSteps) or train longer',
    );
  }
  if (decayStyle !== 'WSD') return;
  const longest = decaySteps - warmupSteps;
  if (!(wsdDecaySteps > 0 && wsdDecaySteps <= longest)) {
    refuse(
      `the last phase of decayStyle WSD takes ${wsdDecaySteps} steps`,
      `more than 0 and at most ${longest} (the steps after warm-up)`,
      'pass wsdDecaySteps, 10 to 20 % of the steps as a rule',
    );
  }
}
