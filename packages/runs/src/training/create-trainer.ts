import type { NumberedBatch } from '@mtl/layout';
import type { TransformerConfiguration } from '@mtl/models';
import type { StepListener } from '@mtl/pipeline';
import { EarlyStopping, modelFlops, StepRerun, stepRecording, type Trainer } from '@mtl/trainer';
import { nameOfTotal } from '@mtl/trainer/internal';
import type { RankStages } from '../parts/models/build-stages.js';
import { describeFlopsShape, findRecipe } from '../parts/models/find-recipe.js';
import { type NewTrainerOptions, newTrainer } from '../parts/new-trainer.js';
import type { StartOfRun } from './load-start.js';
import {
  createAttentionScores,
  createExpertBalance,
  createRankWatch,
  createSpikeGuard,
  hostNames,
} from './loop-extensions.js';
import { describeTrainingSampler, type OpenedData } from './open-data.js';
import type { OpenedRun } from './open-run.js';

/** The parts from which a run's training loop is made. */
export interface CreateTrainerOptions
  extends Pick<NewTrainerOptions, 'optimizer' | 'lossScaler' | 'batches'> {
  /** This rank's part of the model. */
  readonly part: Pick<RankStages, 'pipeline' | 'stages'>;
  readonly start: StartOfRun;
  readonly data: OpenedData;
  readonly model: TransformerConfiguration;
  /** The recorder of steps in --profile-steps. */
  readonly profiler: StepListener | undefined;
}

/**
 * Returns the training loop over this rank's micro-batches, with the extensions that the flags request. A
 * resumed run loads its extensions' states.
 */
export function createTrainer(run: OpenedRun, parts: CreateTrainerOptions): Trainer<NumberedBatch> {
  const { processes, world } = run;
  const { start, data, model, profiler, part, optimizer } = parts;
  const { configuration, progress, resumed } = start;
  const losses = findRecipe(configuration).losses(model);
  const hosts = hostNames(processes.groups.world);
  const { rerunMode } = configuration.spikes;
  const { patience } = configuration.data.conversations ?? {};
  const consumedSamples = progress?.consumedSamples ?? 0;
  const trainer = newTrainer({
    ...parts,
    configuration,
    progress,
    losses,
    flopsPerSample: modelFlops(describeFlopsShape(configuration, model)),
    // this is also the order of the extensions' states in checkpoints
    extensions: [
      patience === undefined ? undefined : new EarlyStopping({ patience }),
      createSpikeGuard(configuration, {
        losses,
        dataset: data.train,
        sampler: describeTrainingSampler(run.configuration, { processes, consumedSamples }),
        reports: processes.isFirst,
      }),
      rerunMode && new StepRerun({ mode: rerunMode, hosts, nameOfTotal: nameOfTotal(losses) }),
      createExpertBalance(configuration, { model, part, processes }),
      createAttentionScores(configuration, { part, optimizer, processes }),
      createRankWatch(configuration, { processes, hosts, world, times: run.rankWatchTimes }),
      profiler && stepRecording(profiler),
      ...(run.extensions ?? []),
    ],
  });
  if (resumed !== undefined) trainer.extensions.restore(resumed);
  return trainer;
}
