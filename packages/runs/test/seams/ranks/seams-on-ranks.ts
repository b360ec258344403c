import { createMeshGroups, type World } from '@mtl/comm';
import type { ContextCommunication } from '@mtl/context-parallel';
import { setPoison } from '@mtl/kernels/internal';
import { type MeshAxis, ProcessMesh } from '@mtl/layout';
import { type SeamsCurve, trainWithSeams } from '../train-with-seams.js';

export interface SeamsLayout {
  readonly tp?: number;
  readonly cp?: number;
  readonly dp?: number;
  readonly ep: number;
  readonly store: 'replicated' | 'zero1';
  readonly splitAndRecomputed?: boolean;
  readonly communication?: ContextCommunication;
  /** Fault injection: experts' gradients are summed over the ranks that sum all other gradients. */
  readonly sumsExpertsOverDense?: boolean;
}

export default function seamsOnRanks(world: World, layouts: readonly SeamsLayout[]): SeamsCurve[] {
  // poisoned, since unwritten memory could look right if it still holds old values
  setPoison(true);
  return layouts.map(({ store, splitAndRecomputed, communication, sumsExpertsOverDense, ...sizes }) => {
    const mesh = new ProcessMesh({ ...sizes, etp: 1 });
    const axes = (['tp', 'cp', 'dp', 'ep', 'edp'] as const).filter((axis) => mesh.sizes[axis] > 1);
    const declared: Record<string, readonly MeshAxis[]> = {
      ...Object.fromEntries(axes.map((axis) => [axis, [axis]])),
      dense: ['cp', 'dp'],
      expert: sumsExpertsOverDense ? ['cp', 'dp'] : ['edp'],
    };
    const { close, ...groups } = createMeshGroups(world, mesh, declared);
    const curve = trainWithSeams({
      groups: { ...groups, world: world.group },
      kind: store,
      splitAndRecomputed,
      communication,
    });
    close();
    return curve;
  });
}
