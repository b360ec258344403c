import type { Parameter, ParameterUnit } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { hasCopyElsewhere } from './flat-layout.js';

/** Parameters that the same units use. */
interface GroupOfUnits {
  readonly parameters: readonly Parameter[];
  readonly units: readonly ParameterUnit[];
}

/**
 * Groups parameters by the units that use them, in order. A tied embedding, which two units use, forms its
 * own group. A parameter with a copy on a second stage also forms its own group, so that both copies are
 * divided in the same way.
 *
 * @throws UsageError MTL_UNIT if a parameter has no unit
 */
export function groupByUnits(
  parameters: readonly Parameter[],
  units: readonly ParameterUnit[],
): readonly GroupOfUnits[] {
  const unitsOfParameter = new Map<Parameter, ParameterUnit[]>();
  for (const unit of units) {
    for (const parameter of new Set(unit.parameters)) {
      unitsOfParameter.set(parameter, [...(unitsOfParameter.get(parameter) ?? []), unit]);
    }
  }
  const groups = new Map<string, { parameters: Parameter[]; units: readonly ParameterUnit[] }>();
  for (const parameter of parameters) {
    const own = unitsOfParameter.get(parameter);
    if (own === undefined) {
      throw new UsageError('MTL_UNIT', `parameter ${parameter.name} is in no unit`, {
        expected: 'every parameter in a unit, since a store gathers parameters by unit',
        remedy: 'pass all units of the model to createStores, or choose a store that keeps all parameters',
      });
    }
    const key = [
      ...own.map((unit) => units.indexOf(unit)),
      ...(hasCopyElsewhere(parameter) ? [parameter.name] : []),
    ].join();
    const group = groups.get(key) ?? { parameters: [], units: own };
    group.parameters.push(parameter);
    groups.set(key, group);
  }
  return [...groups.values()];
}
