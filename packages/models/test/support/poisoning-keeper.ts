import type { Parameter, ParameterUnit, UnitKeeper } from '@mtl/autograd';

/**
 * Gives parameters their values only while a unit that contains them is acquired. Otherwise reading them
 * fails, and memory that was kept is NaN.
 */
export class PoisoningKeeper implements UnitKeeper {
  /** The number of times that values were made present. */
  numAcquired = 0;
  readonly #values: ReadonlyMap<Parameter, Float32Array>;
  readonly #numUses = new Map<Parameter, number>();

  constructor(parameters: readonly Parameter[], units: readonly ParameterUnit[]) {
    this.#values = new Map(parameters.map((parameter) => [parameter, parameter.data.read<'float32'>()]));
    for (const unit of units) unit.keptBy(this);
    for (const parameter of parameters) this.#poison(parameter);
  }

  acquire({ parameters }: ParameterUnit): void {
    for (const parameter of parameters) {
      const numUses = this.#numUses.get(parameter) ?? 0;
      this.#numUses.set(parameter, numUses + 1);
      if (numUses > 0) continue;
      this.numAcquired += 1;
      parameter.deferData(undefined);
      parameter.data.write(this.#values.get(parameter)!);
    }
  }

  release({ parameters }: ParameterUnit): void {
    for (const parameter of parameters) {
      const numUses = this.#numUses.get(parameter)! - 1;
      this.#numUses.set(parameter, numUses);
      if (numUses === 0) this.#poison(parameter);
    }
  }

  #poison(parameter: Parameter): void {
    parameter.data.write(new Float32Array(parameter.size).fill(Number.NaN));
    parameter.deferData(() => {
      throw new Error(`${parameter.name} is read outside of its units`);
    });
  }
}
