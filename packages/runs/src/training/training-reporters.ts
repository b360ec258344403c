import { resolve } from 'node:path';
import { type PretrainingConfiguration, presetsOf } from '@mtl/configuration';
import { TensorboardWriter } from '@mtl/tracking';
import {
  ConsoleReporter,
  type ConsoleStream,
  type EvaluatedStep,
  type MetricsSink,
  type RunOutcome,
  type SummaryRow,
  type TrainingProgress,
  type TrainingReporter,
  TrainingSummary,
} from '@mtl/trainer';
import { risingValidation } from '../records/rising-validation.js';
import type { RunLog } from '../records/run-log.js';
import { openMetricsFiles } from './metrics-files.js';
import { openTracking } from './open-tracking.js';
import type { PlanComparison } from './plan-comparison.js';

/** Who is told of a run, on this rank: the first one of its ranks has any. */
export interface RunReporters {
  readonly all: readonly TrainingReporter[];
  /** Once the run has ended: what a summary adds of each. Further calls do nothing. */
  close(outcome: RunOutcome): Promise<readonly SummaryRow[]>;
}

/** All reporters of the run, the summary among them. */
export interface TrainingReporters extends RunReporters {
  readonly summary: TrainingSummary;
  /** With --compare-with-plan. */
  readonly comparison?: PlanComparison | undefined;
}

export interface OpenReportersOptions {
  readonly configuration: PretrainingConfiguration;
  readonly stream: ConsoleStream;
  readonly flopsFormula: string;
  /** What training goes on from, if it does: files keep one record a step. */
  readonly resume: Pick<TrainingProgress, 'iteration' | 'consumedSamples'> | undefined;
  /** Of a run that has a folder. */
  readonly log: RunLog | undefined;
}

/** Reporters of a process that leaves reporting to another. */
export function silentReporters(flopsFormula: string): TrainingReporters {
  return { all: [], summary: new TrainingSummary({ flopsFormula }), close: async () => [] };
}

/**
 * Opens the reporters of a training run: console, summary and the metrics.jsonl of its run folder always,
 * another file of metrics, TensorBoard and tracking services if named.
 */
export async function openTrainingReporters(options: OpenReportersOptions): Promise<TrainingReporters> {
  const { configuration, stream, flopsFormula, resume } = options;
  const { logInterval, isVerbose, metricsJsonl, tensorboardDirectory } = configuration.logging;
  const { trainIterations } = configuration.training;
  const { save } = configuration.checkpoint;
  // standard error shows up on the same terminal as standard output
  const others = stream === process.stdout ? [process.stderr] : [];
  const console = new ConsoleReporter({
    stream,
    others,
    trainIterations,
    logInterval,
    isVerbose,
    // a run of the default preset has a reader; scripts read those of one's own
    areLinesShort: configuration.preset === presetsOf(configuration.kind).whenNothingIsAsked,
  });
  const metrics = await openMetricsFiles({
    directory: save,
    copy: metricsJsonl,
    resumeIteration: resume?.iteration ?? 0,
    onMessage: (text) => console.message(text),
  });
  const summary = new TrainingSummary({ flopsFormula, earlierEvaluations: metrics.evaluations });
  const evaluations: EvaluatedStep[] = [...metrics.evaluations];
  const evaluated: TrainingReporter = { validation: (result) => void evaluations.push(result) };
  const sinks: readonly MetricsSink[] = [
    console,
    ...metrics.all,
    ...(tensorboardDirectory === undefined
      ? []
      : [new TensorboardWriter({ directory: tensorboardDirectory, resume, run: save && resolve(save) })]),
    ...(await openTracking({
      ...options,
      onMessage: (text) => console.message(text),
    })),
  ];
  return {
    all: [summary, evaluated, ...sinks],
    summary,
    close: async (outcome) => {
      const rising = risingValidation(evaluations);
      const rows: SummaryRow[] = rising === undefined ? [] : [['note', rising]];
      for (const sink of sinks) rows.push(...((await sink.close(outcome)) ?? []));
      return rows;
    },
  };
}
