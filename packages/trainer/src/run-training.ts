import { type JsonObject, saveCheckpoint } from '@mtl/checkpoint';
import type { AdamwOptimizer, LossScaler } from '@mtl/optimizer';
import type { StepMetrics } from './metrics/step-metrics.js';
import type { ValidationLoss } from './metrics/training-summary.js';
import { stopSignalNames } from './stop-signal-names.js';
import type { StopSignals } from './stop-signals.js';
import type { EvaluatedLoss, Trainer } from './trainer.js';
import { optimizerTensors, trainingState, weightTensors } from './training-checkpoint.js';

/** Somebody who wants to know how training goes: console, metrics.jsonl, TensorBoard, the summary. */
export interface TrainingReporter {
  step?(metrics: StepMetrics): void;
  validation?(result: ValidationLoss & { readonly consumedSamples: number }): void;
  message?(text: string): void;
}

export interface SaveSettings {
  readonly directory: string;
  /** Steps between checkpoints; undefined: only at the end. */
  readonly interval: number | undefined;
  /** How many checkpoints stay; undefined: all. */
  readonly keepLast: number | undefined;
  readonly configuration: JsonObject;
}

export interface EvaluationSettings<Batch> {
  /** Steps between evaluations. */
  readonly interval: number;
  /** Of one data-parallel rank. */
  readonly numMicroBatches: number;
  /** The evaluation data from the start: every evaluation sees the same samples. */
  readonly open: () => AsyncIterator<Batch>;
}

/** An evaluation of the caller's own, such as one of predictions. */
export interface OwnEvaluation {
  /** Steps between evaluations. */
  readonly interval: number;
  /** Called on all ranks; what it returns goes to the reporters. */
  readonly run: () => Promise<EvaluatedLoss>;
}

export interface RunTrainingOptions<Batch> {
  readonly trainer: Trainer<Batch>;
  readonly optimizer: AdamwOptimizer;
  readonly lossScaler: LossScaler;
  readonly reporters: readonly TrainingReporter[];
  readonly save?: SaveSettings | undefined;
  readonly evaluation?: EvaluationSettings<Batch> | OwnEvaluation | undefined;
  /** Ends the run after a step whose number is a multiple of this. */
  readonly exitInterval?: number | undefined;
  /**
   * Ends the run after the step in which `performance.now()`, the milliseconds since the process began,
   * reaches this on some rank.
   */
  readonly deadlineMs?: number | undefined;
  readonly signals?: Pick<StopSignals, 'received'> | undefined;
}

export interface TrainingResult {
  /**
   * `done`: the last iteration is reached; `exit-interval`, `deadline` and signals: it can be resumed;
   * `data`: no data left.
   */
  readonly reason: 'done' | 'exit-interval' | 'deadline' | 'data' | NodeJS.Signals;
  readonly checkpointPath: string | undefined;
}

/**
 * Trains to the end with everything around the loop: evaluation, checkpoints (also on SIGINT, SIGTERM and
 * SIGHUP, after the step that is running), reports. The final state is always saved and, where there is
 * evaluation data, evaluated. Every process of a training runs it; a signal to any of them stops all after
 * the same step.
 */
export async function runTraining<Batch>(options: RunTrainingOptions<Batch>): Promise<TrainingResult> {
  const { trainer, save, evaluation, exitInterval } = options;
  let checkpoint: { iteration: number; path: string } | undefined;
  let evaluated = -1;
  let reason: TrainingResult['reason'] = 'data';

  const saveNow = async (): Promise<void> => {
    if (save === undefined || checkpoint?.iteration === trainer.progress.iteration) return;
    checkpoint = { iteration: trainer.progress.iteration, path: await saveTraining(options, save) };
    for (const reporter of options.reporters) reporter.message?.(`saved ${checkpoint.path}`);
  };
  const evaluateNow = async (): Promise<void> => {
    if (evaluation === undefined || evaluated === trainer.progress.iteration) return;
    evaluated = trainer.progress.iteration;
    await evaluateTraining(options, evaluation);
  };

  for await (const metrics of trainer) {
    for (const reporter of options.reporters) reporter.step?.(metrics);
    const { iteration } = metrics;
    const isMultipleOf = (interval: number | undefined): boolean =>
      interval !== undefined && iteration % interval === 0;
    if (isMultipleOf(evaluation?.interval)) await evaluateNow();
    if (isMultipleOf(save?.interval)) await saveNow();
    const stop = agreedStop(options);
    if (stop !== undefined) {
      reason = stop;
      break;
    }
    if (isMultipleOf(exitInterval)) {
      reason = 'exit-interval';
      break;
    }
  }
  const finished = reason === 'data' && trainer.isDone;
  if (finished) {
    reason = 'done';
    await evaluateNow();
  }
  await saveNow();
  return { reason, checkpointPath: checkpoint?.path };
}

/**
 * What asks some process to stop, a signal or its deadline; the same on all of them, since they all ask after
 * the same step.
 */
function agreedStop<Batch>(options: RunTrainingOptions<Batch>): NodeJS.Signals | 'deadline' | undefined {
  const { trainer, signals, deadlineMs = Number.POSITIVE_INFINITY } = options;
  const reasons = [...stopSignalNames, 'deadline'] as const;
  const isLate = performance.now() >= deadlineMs;
  const flags = trainer.ranks.maximum(
    reasons.map((reason) => ((reason === 'deadline' ? isLate : signals?.received === reason) ? 1 : 0)),
  );
  return reasons.find((_, index) => flags[index] === 1);
}

async function saveTraining<Batch>(options: RunTrainingOptions<Batch>, save: SaveSettings): Promise<string> {
  const { trainer, optimizer, lossScaler } = options;
  const { world } = optimizer.groups;
  const { path } = await saveCheckpoint({
    rank: world?.rank ?? 0,
    worldSize: world?.size ?? 1,
    barrier: async (succeeded) => trainer.ranks.maximum([succeeded ? 0 : 1])[0] === 0,
    directory: save.directory,
    iteration: trainer.progress.iteration,
    tensors: [...weightTensors(optimizer), ...optimizerTensors(optimizer)],
    state: trainingState({
      progress: trainer.progress,
      optimizer,
      lossScaler,
      configuration: save.configuration,
    }),
    ...(save.keepLast === undefined ? {} : { keepLast: save.keepLast }),
  });
  return path;
}

async function evaluateTraining<Batch>(
  { trainer, reporters }: RunTrainingOptions<Batch>,
  evaluation: EvaluationSettings<Batch> | OwnEvaluation,
): Promise<void> {
  const evaluated = 'run' in evaluation ? await evaluation.run() : await lossOf(trainer, evaluation);
  const { iteration, consumedSamples } = trainer.progress;
  for (const reporter of reporters) reporter.validation?.({ iteration, consumedSamples, ...evaluated });
}

async function lossOf<Batch>(
  trainer: Trainer<Batch>,
  { open, numMicroBatches }: EvaluationSettings<Batch>,
): Promise<EvaluatedLoss> {
  const batches = open();
  try {
    return await trainer.evaluate(batches, numMicroBatches);
  } finally {
    await batches.return?.();
  }
}
