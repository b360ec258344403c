import {
  ConsoleReporter,
  type ConsoleStream,
  MetricsJsonlWriter,
  TensorboardWriter,
  type TrainingReporter,
  TrainingSummary,
} from '@mtl/trainer';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';

/** Everybody who is told how training goes, the summary among them. */
export interface TrainingReporters {
  readonly all: readonly TrainingReporter[];
  readonly summary: TrainingSummary;
  close(): void;
}

export interface OpenReportersOptions {
  readonly configuration: PretrainingConfiguration;
  readonly stream: ConsoleStream;
  readonly flopsFormula: string;
  /** The iteration that training goes on from: metrics.jsonl keeps one line a step. */
  readonly resumeIteration: number;
}

/** Reporters of a process that leaves reporting to another. */
export function silentReporters(flopsFormula: string): TrainingReporters {
  return { all: [], summary: new TrainingSummary({ flopsFormula }), close: () => {} };
}

/**
 * Opens the reporters that the flags ask for: console and summary always, metrics.jsonl and TensorBoard if
 * named.
 */
export async function openTrainingReporters(options: OpenReportersOptions): Promise<TrainingReporters> {
  const { configuration, stream, flopsFormula, resumeIteration } = options;
  const { logInterval, metricsJsonl, tensorboardDirectory } = configuration.logging;
  const { trainIterations } = configuration.training;
  const console = new ConsoleReporter({ stream, trainIterations, logInterval });
  const summary = new TrainingSummary({ flopsFormula });
  const metrics =
    metricsJsonl === undefined
      ? undefined
      : await MetricsJsonlWriter.open({ path: metricsJsonl, resumeIteration });
  const tensorboard =
    tensorboardDirectory === undefined
      ? undefined
      : new TensorboardWriter({ directory: tensorboardDirectory });
  const jsonl: TrainingReporter | undefined = metrics && { step: (step) => metrics.write(step) };
  return {
    all: [console, summary, jsonl, tensorboard].filter((reporter) => reporter !== undefined),
    summary,
    close: () => {
      console.close();
      metrics?.close();
      tensorboard?.close();
    },
  };
}
