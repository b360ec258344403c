import { UsageError } from '@mtl/errors';
import type { Parameter } from './parameter.js';

/**
 * A keeper of parameter values that are present only while they are used, such as a store that shards them.
 */
export interface UnitKeeper {
  /** Makes the values of the unit's parameters that this keeper stores present. */
  acquire(unit: ParameterUnit): void;
  /** Records that the values are not used until the unit is acquired again. */
  release(unit: ParameterUnit): void;
}

/**
 * Parameters that a model uses together, such as the parameters of a layer. Code that computes with the
 * parameters acquires the unit before and releases it after (`Tape.within`), so that the values need not be
 * kept in between. A parameter may be in several units (a tied embedding).
 */
export class ParameterUnit {
  readonly parameters: readonly Parameter[];
  readonly #keepers: UnitKeeper[] = [];
  #numUses = 0;

  constructor(parameters: readonly Parameter[]) {
    this.parameters = parameters;
  }

  /** Calls `keeper` whenever the first use of the unit begins and the last one ends. Default: no calls. */
  keptBy(keeper: UnitKeeper): void {
    this.#keepers.push(keeper);
  }

  /** Makes the values present until `release` has been called once for each `acquire`. */
  acquire(): void {
    if (this.#numUses === 0) for (const keeper of this.#keepers) keeper.acquire(this);
    this.#numUses += 1;
  }

  /** @throws UsageError `MTL_UNIT` when it has not been acquired */
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
