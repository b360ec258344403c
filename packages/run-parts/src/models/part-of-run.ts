import type { PretrainingConfiguration } from '@mtl/configuration';
import type { NumberedBatch } from '@mtl/data';
import type { TransformerConfiguration } from '@mtl/models';
import type { ModelOptimizer } from '@mtl/optimizer';
import type { TrainingProcesses } from '../ranks/training-processes.js';
import { dtypeOfPrecision } from './dtype-of-precision.js';
import type { ModelChunk } from './model-chunk.js';
import { type ModelPart, type ModelPartOptions, modelPart } from './model-part.js';
import { recipeOf } from './recipe-of.js';
import { optimizerOfPart } from './training-optimizer.js';

/** A rank's part of the model of a run. */
export type PartOfRun = ModelPart<NumberedBatch, ModelChunk<NumberedBatch>>;

/** A run as far as its model's parts follow from it. */
interface PartedRun extends Pick<ModelPartOptions<TransformerConfiguration, never>, 'onMessage'> {
  readonly configuration: PretrainingConfiguration;
  readonly processes: TrainingProcesses;
}

/**
 * This rank's stages of a run's model, and the pipeline that runs them with those of the others. All ranks
 * call it.
 */
export function partOfRun(
  { configuration, processes, onMessage }: PartedRun,
  parts: Pick<ModelPartOptions<TransformerConfiguration, never>, 'model' | 'recorder' | 'assumedRouting'>,
): PartOfRun {
  const { embeddingAndHeadCost, buildStages } = recipeOf(configuration);
  return modelPart({
    configuration,
    processes,
    onMessage,
    buildStages,
    ...parts,
    dtype: dtypeOfPrecision[configuration.training.precision],
    work: embeddingAndHeadCost(configuration, parts.model),
  });
}

/** Memory of the parameters of a rank's part with initial values, and the optimizer of them. */
export function optimizerOfRun(
  { configuration, processes }: Omit<PartedRun, 'onMessage'>,
  { part }: { readonly part: PartOfRun },
): ModelOptimizer {
  const { device } = configuration.parallel;
  const dtype = dtypeOfPrecision[configuration.training.precision];
  return optimizerOfPart(part, { configuration, processes, device, dtype });
}
