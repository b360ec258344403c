import type { Checkpoint } from '@mtl/checkpoint';
import type { PretrainingConfiguration, SavedConfiguration } from '@mtl/configuration';
import type { HuggingFaceOrigin } from '@mtl/formats';
import type { TransformerConfiguration } from '@mtl/models';
import type { LossScaler, ModelOptimizer } from '@mtl/optimizer';
import type { RunStart } from '@mtl/run-records';
import type { TrainingProgress } from '@mtl/trainer';
import { dataChanges, startOfCheckpoint } from '../data-changes/data-changes.js';
import { microBatchesOf } from '../parts/data/training-data.js';
import { recipeOf } from '../parts/models/recipe-of.js';
import { findStart } from '../saved/checkpoints/find-start.js';
import type { OpenedRun } from './open-run.js';
import { resumedConfiguration } from './resumed-configuration.js';

/**
 * The start of a run: its first step with the weights that it found, or the step at which a checkpoint
 * stopped.
 */
export interface StartOfRun {
  /** The configuration in force: that of the run, with what its checkpoint keeps. */
  readonly configuration: PretrainingConfiguration;
  /** Undefined for a run that begins at its first step. */
  readonly progress: TrainingProgress | undefined;
  /**
   * The checkpoint that training resumes from, with its settings and the states of the trainer's extensions.
   */
  readonly resumed: Checkpoint | undefined;
  /** Path of the checkpoint where it has everything that training resumes from. */
  readonly resumedFrom: string | undefined;
  /** Fields that came with the model from a Hugging Face directory, through checkpoints too. */
  readonly origin: HuggingFaceOrigin | undefined;
}

/**
 * Reads the weights and, where the run goes on, the state of the optimizer: of a run that its launcher has
 * restarted what it has saved itself, otherwise what --load or --load-hf names. All ranks call it.
 *
 * @throws those of `findStart` and `resumedConfiguration`
 */
export async function loadStart(
  run: OpenedRun,
  parts: {
    readonly model: TransformerConfiguration;
    readonly optimizer: ModelOptimizer;
    readonly lossScaler: LossScaler;
    /** Checksums of the data, which are compared with those of the checkpoint. */
    readonly data: { readonly fingerprints: () => RunStart['datasets'] };
  },
): Promise<StartOfRun> {
  const { configuration, huggingFace, processes, job, commandLine, onMessage } = run;
  const { kind, checkpoint } = configuration;
  const { save } = checkpoint;
  const { model, optimizer, lossScaler } = parts;
  const recipe = recipeOf(configuration);
  const found = await findStart({
    checkpoint,
    huggingFace,
    onMessage,
    optimizer,
    lossScaler,
    processes,
    model: { kind, model },
    adapters: await recipe.adapters.open(configuration, model),
    parameterNames: recipe.parameterNames(model, recipe.adapters.layersOf(configuration, model)),
    restartFrom: job.restartCount > 0 && save !== undefined ? { directory: save, job } : undefined,
  });
  const resumed = found.isResumed ? found.checkpoint : undefined;
  // refuses a configuration that cannot go on from the checkpoint, before anything is loaded
  const kept =
    resumed === undefined
      ? undefined
      : resumedConfiguration({
          configuration,
          checkpoint: resumed,
          commandLine,
          withOptimizer: found.withOptimizer,
          changedData: () => {
            const { start } = startOfCheckpoint(resumed);
            return start === undefined ? [] : dataChanges(start, parts.data.fingerprints());
          },
        });
  const progress = await found.load();
  const inForce = goingOnFrom(kept?.configuration ?? configuration, progress);
  optimizer.weightDecay = inForce.optimizer.weightDecay;
  for (const note of kept?.notes ?? []) onMessage(note);
  return {
    configuration: inForce,
    progress,
    resumed,
    resumedFrom: found.withOptimizer ? resumed?.path : undefined,
    origin: found.checkpoint === undefined ? huggingFace?.origin : originOf(found.checkpoint),
  };
}

/** Returns the fields that the model of a checkpoint came with from a Hugging Face directory. */
const originOf = ({ state }: Checkpoint): HuggingFaceOrigin | undefined =>
  ((state.configuration ?? {}) as Partial<SavedConfiguration>).huggingFace;

/**
 * Returns a configuration with the steps that its run takes from where it really goes on: the flags know that
 * of the checkpoint of --load alone, while a run that is restarted goes on from what it has saved itself.
 */
function goingOnFrom(
  configuration: PretrainingConfiguration,
  progress: TrainingProgress | undefined,
): PretrainingConfiguration {
  const { trainSamples } = configuration.training;
  if (progress === undefined || trainSamples === undefined) return configuration;
  const { iteration, consumedSamples } = progress;
  const start = { iteration, consumedSamples };
  const training = { ...configuration.training, start };
  const begun = { ...configuration, training };
  const trainIterations = microBatchesOf(begun).iterationsFor(trainSamples, start);
  return { ...begun, training: { ...training, trainIterations } };
}
