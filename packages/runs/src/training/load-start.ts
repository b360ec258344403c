import type { Checkpoint } from '@mtl/checkpoint';
import type { PretrainingConfiguration, SavedConfiguration } from '@mtl/configuration';
import type { HuggingFaceOrigin } from '@mtl/formats';
import type { TransformerConfiguration } from '@mtl/models';
import type { LossScaler, ModelOptimizer } from '@mtl/optimizer';
import type { RunStart } from '@mtl/run-records';
import type { TrainingProgress } from '@mtl/trainer';
import { dataChanges, startOfCheckpoint } from '../data-changes/data-changes.js';
import { planMicroBatches } from '../parts/data/training-data.js';
import { findRecipe } from '../parts/models/find-recipe.js';
import { findStart } from '../saved/checkpoints/find-start.js';
import type { OpenedRun } from './open-run.js';
import { resumedConfiguration } from './resumed-configuration.js';

/**
 * The state in which a run starts: iteration 0 with initial or loaded weights, or a checkpoint's iteration
 * and state.
 */
export interface StartOfRun {
  /**
   * The effective configuration, which is the run's configuration with the settings that it keeps from its
   * checkpoint.
   */
  readonly configuration: PretrainingConfiguration;
  /** The progress from which the run continues; undefined for a run that starts at iteration 0. */
  readonly progress: TrainingProgress | undefined;
  /**
   * The checkpoint from which training resumes, with its settings and the states of the trainer's extensions;
   * undefined for a new run.
   */
  readonly resumed: Checkpoint | undefined;
  /**
   * The path of the checkpoint if the run resumes both its weights and its optimizer state; otherwise
   * undefined.
   */
  readonly resumedFrom: string | undefined;
  /** JSON fields from the model's Hugging Face directory, which checkpoints preserve. */
  readonly origin: HuggingFaceOrigin | undefined;
}

/**
 * Loads the weights and, if the run continues, the optimizer's state. A run that its launcher has restarted
 * loads its own last checkpoint. All other runs load from the directory of --load or --load-hf. All ranks
 * must call this function.
 *
 * @throws the errors of `findStart` and `resumedConfiguration`
 */
export async function loadStart(
  run: OpenedRun,
  parts: {
    readonly model: TransformerConfiguration;
    readonly optimizer: ModelOptimizer;
    readonly lossScaler: LossScaler;
    /**
     * Returns checksums of the data, which are compared with the record of the run that saved the checkpoint.
     */
    readonly data: { readonly fingerprints: () => RunStart['datasets'] };
  },
): Promise<StartOfRun> {
  const { configuration, huggingFace, processes, job, commandLine, onMessage } = run;
  const { kind, checkpoint } = configuration;
  const { save } = checkpoint;
  const { model, optimizer, lossScaler } = parts;
  const recipe = findRecipe(configuration);
  const found = await findStart({
    checkpoint,
    huggingFace,
    onMessage,
    optimizer,
    lossScaler,
    processes,
    model: { kind, model },
    adapters: await recipe.adapters.open(configuration, model),
    parameterNames: recipe.parameterNames(model, recipe.adapters.makeLayerOptions(configuration, model)),
    restartFrom: job.restartCount > 0 && save !== undefined ? { directory: save, job } : undefined,
  });
  const resumed = found.isResumed ? found.checkpoint : undefined;
  // throws if the run cannot continue from the checkpoint with this configuration
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
    origin: found.checkpoint === undefined ? huggingFace?.origin : readOrigin(found.checkpoint),
  };
}

/** Returns the JSON fields that a checkpoint preserves from its model's Hugging Face directory. */
const readOrigin = ({ state }: Checkpoint): HuggingFaceOrigin | undefined =>
  ((state.configuration ?? {}) as Partial<SavedConfiguration>).huggingFace;

/**
 * Returns the configuration with the number of steps that results from the actual start. The flags were
 * checked with the progress of the checkpoint in --load, but a restarted run continues from its own last
 * checkpoint.
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
  const trainIterations = planMicroBatches(begun).iterationsFor(trainSamples, start);
  return { ...begun, training: { ...training, trainIterations } };
}
