import { UsageError } from '@mtl/errors';
import type { Parameter } from './parameter.js';

/**
 * An object that keeps parameter values in memory only while they are in use, such as a parameter store that
 * shards them.
 */
export interface UnitKeeper {
  /** Brings the values of the unit's parameters into memory, if this object stores them. */
  acquire(unit: ParameterUnit): void;
  /** Called by the tape when the values are not needed until the unit's next `acquire`. */
  release(unit: ParameterUnit): void;
}

/**
 * Parameters that a model uses together, such as the parameters of a layer. Code acquires the unit before it
 * computes with the parameters, and releases the unit afterwards (see `Tape.within`). The values must be in
 * memory only between these two calls. A parameter may be in several units, as a tied embedding is.
 */
export class ParameterUnit {
  readonly parameters: readonly Parameter[];
  /**
   * True for parameters that are used before or after all layers (embedding, last norm, head). Their values
   * may stay in memory while the layers run, because they are soon needed again.
   */
  readonly isRoot: boolean;
  readonly #keepers: UnitKeeper[] = [];
  #numUses = 0;

  constructor(
    parameters: readonly Parameter[],
    { isRoot = false }: Partial<Pick<ParameterUnit, 'isRoot'>> = {},
  ) {
    this.parameters = parameters;
    this.isRoot = isRoot;
  }

  /**
   * Registers an object whose `acquire` is called when the unit's first use begins, and whose `release` is
   * called when the last use ends.
   */
  keptBy(keeper: UnitKeeper): void {
    this.#keepers.push(keeper);
  }

  /** True if an object keeps the values in memory only while the unit is acquired. */
  get isKept(): boolean {
    return this.#keepers.length > 0;
  }

  /** Keeps the values in memory until `release` has been called as often as `acquire`. */
  acquire(): void {
    if (this.#numUses === 0) for (const keeper of this.#keepers) keeper.acquire(this);
    this.#numUses += 1;
  }

  /**
   * Ends a use that `acquire` began.
   *
   * @throws UsageError `MTL_UNIT` if the unit has not been acquired
   */
  release(): void {
    if (this.#numUses === 0) {
      throw new UsageError('MTL_UNIT', 'a unit of parameters is released more often than acquired', {
        expected: `acquire() before each release() of ${this.parameters.map(({ name }) => name).join(', ')}`,
      });
    }
    this.#numUses -= 1;
    if (this.#numUses === 0) for (const keeper of this.#keepers) keeper.release(this);
  }
}
