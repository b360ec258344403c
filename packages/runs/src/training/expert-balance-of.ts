import type { PretrainingConfiguration } from '@mtl/configuration';
import type { PartOfRun, TrainingProcesses } from '@mtl/run-parts';
import { layersWithExperts } from '@mtl/run-parts/internal';
import { ExpertBalance, Ranks } from '@mtl/trainer';

/** What counts the loads of experts and moves their biases; undefined for a model without experts. */
export function expertBalanceOf(
  { logging }: Pick<PretrainingConfiguration, 'logging'>,
  {
    model,
    part,
    processes,
  }: {
    readonly model: Parameters<typeof layersWithExperts>[0];
    readonly part: Pick<PartOfRun, 'stages'>;
    readonly processes: TrainingProcesses;
  },
): ExpertBalance | undefined {
  const layers = layersWithExperts(model);
  if (layers.length === 0) return undefined;
  return new ExpertBalance({
    loads: [...part.stages.values()].flatMap(({ expertLoads = [] }) => expertLoads),
    layers: layers.map((layer) => `decoder.layers.${layer}.mlp`),
    numExperts: model.numExperts!,
    ranks: new Ranks({ groups: processes.groups }),
    interval: logging.logInterval,
  });
}
