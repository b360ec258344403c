import type { World } from '@mtl/comm';
import { setNumThreads, Tensor } from '@mtl/kernels';
import { setPoison } from '@mtl/kernels/internal';
import { B, H, runNetwork, S } from '../small-network.js';

export interface NetworkComparison {
  /** True if the embedding equals this rank's part of the unsharded one, bit for bit. */
  readonly isSameEmbedding: boolean;
  /**
   * The largest difference from this rank's part of the unsharded result; for gradients relative to their
   * norm.
   */
  readonly narrowed: number;
  readonly losses: number;
  readonly gradients: Readonly<Record<string, number>>;
}

/** Runs the network sharded over the ranks and, on each rank, unsharded, and compares the results. */
export default function compareNetwork(
  world: World,
  { sequenceParallel, isAdapted }: { readonly sequenceParallel: boolean; readonly isAdapted: boolean },
): NetworkComparison {
  setNumThreads(1);
  setPoison(true);
  const { group } = world;
  const whole = runNetwork(undefined, { isAdapted });
  const own = runNetwork({ group, sequenceParallel }, { isAdapted });
  const rows = sequenceParallel ? S / group.size : S;
  const first = sequenceParallel ? group.rank * rows * B * H : 0;
  const part = (values: readonly number[]): number[] => values.slice(first, first + rows * B * H);
  const gradients = own.gradients.map(({ parameter, values }, index): [string, number] => {
    const { globalShape, slices, partialOver, name } = parameter;
    const columns = globalShape[1] ?? 1;
    const [ownRows, ownColumns] = [slices[0]!, slices[1] ?? { start: 0, end: 1 }];
    const expected = whole.gradients[index]!.values.filter((_, at) => {
      const [row, column] = [Math.floor(at / columns), at % columns];
      const isInRows = row >= ownRows.start && row < ownRows.end;
      return isInRows && column >= ownColumns.start && column < ownColumns.end;
    });
    const actual = partialOver.includes('tp') ? summed(world, values) : values;
    return [name, distance(actual, expected) / Math.hypot(...expected)];
  });
  return {
    isSameEmbedding: JSON.stringify(own.embedded) === JSON.stringify(part(whole.embedded)),
    narrowed: distance(own.narrowed, part(whole.narrowed)),
    losses: distance(own.losses, whole.losses),
    gradients: Object.fromEntries(gradients),
  };
}

function summed({ group }: World, values: readonly number[]): number[] {
  const tensor = Tensor.from(values, { shape: [values.length], dtype: 'float32' });
  group.allReduce(tensor).wait();
  const sum = tensor.toArray();
  tensor.dispose();
  return sum;
}

const distance = (a: readonly number[], b: readonly number[]): number =>
  Math.hypot(...a.map((value, index) => value - b[index]!));
