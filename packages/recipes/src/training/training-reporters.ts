import type { PretrainingConfiguration } from '@mtl/configuration';
import {
  ConsoleReporter,
  type ConsoleStream,
  TensorboardWriter,
  type TrainingReporter,
  TrainingSummary,
} from '@mtl/trainer';
import { openMetricsFiles } from './metrics-files.js';

/** All reporters of the run, the summary among them. */
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
 * Opens the reporters of a training run: console, summary and the metrics.jsonl of its run folder always,
 * another file of metrics and TensorBoard if named.
 */
export async function openTrainingReporters(options: OpenReportersOptions): Promise<TrainingReporters> {
  const { configuration, stream, flopsFormula, resumeIteration } = options;
  const { logInterval, metricsJsonl, tensorboardDirectory } = configuration.logging;
  const { trainIterations } = configuration.training;
  const console = new ConsoleReporter({ stream, trainIterations, logInterval });
  const summary = new TrainingSummary({ flopsFormula });
  const metrics = await openMetricsFiles({
    directory: configuration.checkpoint.save,
    copy: metricsJsonl,
    resumeIteration,
    onMessage: (text) => stream.write(`${text}\n`),
  });
  const tensorboard =
    tensorboardDirectory === undefined
      ? undefined
      : new TensorboardWriter({ directory: tensorboardDirectory });
  return {
    all: [console, summary, ...metrics.all, tensorboard].filter((reporter) => reporter !== undefined),
    summary,
    close: () => {
      console.close();
      metrics.close();
      tensorboard?.close();
    },
  };
}
