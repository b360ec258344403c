import { ProcessMesh } from '@mtl/comm';
import type { ParallelConfiguration } from '@mtl/configuration';

/** What says how the processes of a run are laid out. */
export type MeshSizes = Pick<
  ParallelConfiguration,
  'tensorModelParallelSize' | 'pipelineModelParallelSize' | 'dataParallelSize'
>;

/** The processes of a run. */
export function meshOfRun({
  tensorModelParallelSize: tp,
  pipelineModelParallelSize: pp,
  dataParallelSize: dp,
}: MeshSizes): ProcessMesh {
  return new ProcessMesh({ tp, pp, dp });
}
