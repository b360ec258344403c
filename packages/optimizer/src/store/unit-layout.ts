import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { type Bucket, type FlatLayout, type FlatRange, placeBuckets, takeSlice } from './flat-layout.js';
import { groupByUnits } from './group-by-units.js';
import { packedStarts } from './owned-values.js';

/** A bucket of parameters that are used in the same units. */
export interface UnitBucket extends Bucket {
  readonly units: readonly ParameterUnit[];
}

/** A layout in which each bucket has the parameters of the same units. Includes this rank's slices. */
export interface UnitLayout extends FlatLayout {
  readonly buckets: readonly UnitBucket[];
  /** This rank's slice of each bucket. */
  readonly slices: readonly FlatRange[];
  /** The offset of each slice if the slices are stored one after the other. */
  readonly starts: readonly number[];
  /** The number of elements of all slices. */
  readonly sliceSize: number;
}

/** Returns the units that have at least one parameter in `parameters`. */
export const unitsWith = (
  parameters: readonly Parameter[],
  units: readonly ParameterUnit[],
): readonly ParameterUnit[] => {
  const wanted = new Set(parameters);
  return units.filter((unit) => unit.parameters.some((each) => wanted.has(each)));
};

/**
 * Places parameters that are used in the same units one after the other, in one bucket, and divides every
 * bucket into equal slices.
 *
 * @throws UsageError `MTL_UNIT` for a parameter that is in no unit
 */
export function unitLayout(
  parameters: readonly Parameter[],
  { units, group }: { readonly units: readonly ParameterUnit[]; readonly group: ProcessGroup },
): UnitLayout {
  const groups = groupByUnits(parameters, units);
  const { ranges, buckets, size } = placeBuckets(
    groups.map((each) => each.parameters),
    { numSlices: group.size },
  );
  const slices = buckets.map((bucket) => takeSlice(bucket, group.rank, group.size));
  // `placeBuckets` lists the buckets in reverse order
  const withUnits = buckets.map((bucket, index) => ({ ...bucket, units: groups.at(-1 - index)!.units }));
  const { starts, size: sliceSize } = packedStarts(slices);
  return { ranges, buckets: withUnits, size, slices, starts, sliceSize };
}
