import type { World } from '@mtl/comm';
import { setPoison } from '@mtl/kernels/internal';
import { ProcessMesh } from '@mtl/layout';
import { type OwnKindsResult, type TrainOwnKinds, trainOwnKinds } from '../train-own-kinds.js';

/** Trains on two pipeline stages of two tensor-parallel ranks. */
export default function ownKindsOnRanks(
  world: World,
  options: readonly Omit<TrainOwnKinds, 'groups'>[],
): OwnKindsResult[] {
  // unwritten memory must not look right because it held the same values before
  setPoison(true);
  const mesh = new ProcessMesh({ tp: 2, pp: 2 });
  const group = (axis: 'tp' | 'pp') =>
    world.createGroup({ name: axis, ranks: mesh.groupOf(world.rank, [axis]) });
  const groups = { tp: group('tp'), pp: group('pp') };
  return options.map((each) => trainOwnKinds({ ...each, groups }));
}
