import { ConfigurationError } from '@mtl/errors';

/** The state that a loss scaler must keep when a run is resumed: plain values, which JSON can store. */
interface LossScalerState {
  readonly scale: number;
  /** How many steps without overflow have followed the last change of the scale or the last overflow. */
  readonly growthTracker: number;
  /** How many further overflows it takes until the scale is lowered. */
  readonly hysteresisTracker: number;
}

/**
 * Options of a constant scale, or of a scale that increases while gradients stay finite and decreases when
 * they overflow.
 */
export type LossScalerOptions =
  | { readonly kind: 'constant'; readonly scale?: number }
  | {
      readonly kind: 'dynamic';
      /** The first scale (--initial-loss-scale). Default 2^32. */
      readonly initialScale?: number;
      /** The smallest scale (--min-loss-scale). Default 1. */
      readonly minScale?: number;
      /** The factor by which the scale increases. Default: 2. */
      readonly growthFactor?: number;
      /** The factor by which the scale decreases. Default: 0.5. */
      readonly backoffFactor?: number;
      /**
       * How many steps without overflow are needed before the scale increases (--loss-scale-window). Default:
       * 1000.
       */
      readonly growthInterval?: number;
      /** How many overflows are needed before the scale is lowered (--hysteresis). Default: 2. */
      readonly hysteresis?: number;
    };

const dynamicDefaults = {
  initialScale: 2 ** 32,
  minScale: 1,
  growthFactor: 2,
  backoffFactor: 0.5,
  growthInterval: 1000,
  hysteresis: 2,
} as const;

type DynamicRules = { readonly [name in keyof typeof dynamicDefaults]: number };

/**
 * Scales the loss, so that small gradients do not become 0 in fp16 (Micikevicius 2018, section 3.2). The
 * rules for a dynamic scale, and its rounding to fp32, are the same as in Megatron-LM's `DynamicGradScaler`:
 *
 * - an overflow resets the count of steps and uses up one unit of hysteresis; if no hysteresis is left, the
 *   scale is multiplied by the backoff factor, but never becomes smaller than the minimum;
 * - after `growthInterval` consecutive steps without overflow, the scale is multiplied by the growth factor,
 *   and the hysteresis is restored. (Lowering the scale does not restore the hysteresis, so each further
 *   overflow lowers the scale again.)
 */
export class LossScaler {
  readonly #rules: DynamicRules | undefined;
  #scale: number;
  #growthTracker = 0;
  #hysteresisTracker = 0;

  /** @throws ConfigurationError `MTL_LOSS_SCALE` when a scale, factor or count is out of range */
  constructor(options: LossScalerOptions) {
    if (options.kind === 'constant') {
      this.#rules = undefined;
      this.#scale = checkPositive('scale', options.scale ?? 1);
      return;
    }
    if (options.kind !== 'dynamic') {
      refuse(`unknown kind ${String((options as { kind?: unknown }).kind)}`, 'constant or dynamic');
    }
    const { kind: _, ...given } = options;
    this.#rules = { ...dynamicDefaults, ...given };
    checkRules(this.#rules);
    this.#scale = Math.fround(this.#rules.initialScale);
    this.#hysteresisTracker = this.#rules.hysteresis;
  }

  /** The factor to multiply the loss by. */
  get scale(): number {
    return this.#scale;
  }

  /** The factor that removes the scale from the gradients, rounded to fp32. */
  get inverseScale(): number {
    return Math.fround(1 / this.#scale);
  }

  /** True if the scale adapts to overflows. */
  get isDynamic(): boolean {
    return this.#rules !== undefined;
  }

  /**
   * True if the scale cannot be lowered any further. In this case, the scale is not the cause of an overflow.
   */
  get isAtMinimum(): boolean {
    return this.#rules !== undefined && this.#scale <= this.#rules.minScale;
  }

  /**
   * Records a step.
   *
   * @param foundInf true if a gradient contained an infinity or NaN on any rank. In this case, the step
   *   itself was skipped.
   */
  update(foundInf: boolean): void {
    const rules = this.#rules;
    if (rules === undefined) return;
    if (foundInf) {
      this.#growthTracker = 0;
      this.#hysteresisTracker -= 1;
      if (this.#hysteresisTracker <= 0) {
        this.#scale = Math.max(Math.fround(this.#scale * rules.backoffFactor), rules.minScale);
      }
      return;
    }
    this.#growthTracker += 1;
    if (this.#growthTracker < rules.growthInterval) return;
    this.#growthTracker = 0;
    this.#hysteresisTracker = rules.hysteresis;
    const grown = Math.fround(this.#scale * rules.growthFactor);
    // An infinite scale would break every later step and could not be lowered, so the scale stays at its last
    // finite value.
    if (Number.isFinite(grown)) this.#scale = grown;
  }

  /** The state to save in a checkpoint. */
  state(): LossScalerState {
    return {
      scale: this.#scale,
      growthTracker: this.#growthTracker,
      hysteresisTracker: this.#hysteresisTracker,
    };
  }

  /**
   * Restores a state that the `state` of a scaler has returned. As in Megatron, a constant scaler keeps its
   * own scale.
   */
  loadState(state: LossScalerState): void {
    if (this.#rules === undefined) return;
    this.#scale = checkPositive('the loss scale in the checkpoint', state.scale);
    this.#growthTracker = state.growthTracker;
    this.#hysteresisTracker = state.hysteresisTracker;
  }
}

function refuse(message: string, expected: string): never {
  throw new ConfigurationError('MTL_LOSS_SCALE', message, { expected });
}

function checkPositive(name: string, value: number): number {
  if (!Number.isFinite(Math.fround(value)) || value <= 0) {
    refuse(`${name} is ${value}`, 'a positive number that fp32 can hold');
  }
  return value;
}

function checkRules(rules: DynamicRules): void {
  checkPositive('initialScale', rules.initialScale);
  checkPositive('minScale', rules.minScale);
  if (rules.minScale > rules.initialScale) {
    refuse(
      `minScale ${rules.minScale} is above initialScale ${rules.initialScale}`,
      `at most ${rules.initialScale}`,
    );
  }
  if (!(rules.growthFactor > 1)) refuse(`growthFactor is ${rules.growthFactor}`, 'more than 1');
  if (!(rules.backoffFactor > 0 && rules.backoffFactor < 1)) {
    refuse(`backoffFactor is ${rules.backoffFactor}`, 'more than 0 and less than 1');
  }
  for (const [name, count] of [
    ['growthInterval', rules.growthInterval],
    ['hysteresis', rules.hysteresis],
  ] as const) {
    if (!Number.isInteger(count) || count < 1) refuse(`${name} is ${count}`, 'a whole number of 1 or more');
  }
}
