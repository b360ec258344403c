import { UsageError } from '@mtl/errors';
import type { Parameter } from './parameter.js';

/** Keeps values of parameters only while they are used, such as a store that shards them. */
export interface UnitKeeper {
  /** Makes the values of the parameters that it keeps of a unit present. */
  acquire(unit: ParameterUnit): void;
  /** Takes note that they are not used any more until the unit is acquired again. */
  release(unit: ParameterUnit): void;
}

/**
 * Parameters that a model uses together, such as those of a layer. Who computes with them acquires the unit
 * before and releases it after (`Tape.within`), so that their values need not be kept in between. A parameter
 * may be in several units (a tied embedding).
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

  /** Makes the values present until as many calls of `release`. */
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
