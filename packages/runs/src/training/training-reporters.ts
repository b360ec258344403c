import { resolve } from 'node:path';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { findPresets } from '@mtl/configuration/internal';
import { metricsPath, risingValidation } from '@mtl/run-records';
import { TensorboardWriter } from '@mtl/tracking';
import {
  ConsoleReporter,
  type ConsoleStream,
  type EvaluatedStep,
  MetricsJsonlWriter,
  type MetricsSink,
  type RunOutcome,
  type SummaryRow,
  type TrainingProgress,
  type TrainingReporter,
  TrainingSummary,
} from '@mtl/trainer';
import { closeAfterError, closeAll } from '../close-all.js';
import { isSamePlace } from '../saved/checkpoints/checkpoint-places.js';
import type { RunLog } from './run-log.js';
import type { StepComparison } from './run-planning.js';
import { openTracking } from './tracking-of-run.js';

/** A run's reporters on this rank. Only rank 0 has reporters. */
export interface RunReporters {
  readonly all: readonly TrainingReporter[];
  /**
   * Closes the reporters after the run. Returns the rows that they add to the run's summary. Further calls do
   * nothing.
   */
  close(outcome: RunOutcome): Promise<readonly SummaryRow[]>;
}

/** All reporters of the run, including the summary. */
export interface TrainingReporters extends RunReporters {
  readonly summary: TrainingSummary;
  /** The comparison with the plan, for --compare-with-plan. */
  readonly comparison?: StepComparison | undefined;
}

interface OpenReportersOptions {
  readonly configuration: PretrainingConfiguration;
  readonly stream: ConsoleStream;
  readonly flopsFormula: string;
  /**
   * The progress from which a resumed run continues; undefined for a new run. Records of later steps are
   * removed from the files, so that each step has only one record.
   */
  readonly resume: Pick<TrainingProgress, 'iteration' | 'consumedSamples'> | undefined;
  /** The run's log; undefined for a run without a folder. */
  readonly log: RunLog | undefined;
}

/** Returns the reporters for a process that does not report. */
export function silentReporters(flopsFormula: string): TrainingReporters {
  return { all: [], summary: new TrainingSummary({ flopsFormula }), close: async () => [] };
}

/**
 * Opens the reporters of a training run: console, summary and metrics.jsonl in the run folder. If flags
 * request them, also opens a further metrics file, TensorBoard and tracking services.
 */
export async function openTrainingReporters(options: OpenReportersOptions): Promise<TrainingReporters> {
  const { configuration, stream, flopsFormula, resume } = options;
  const { logInterval, isVerbose, metricsJsonl, tensorboardDirectory } = configuration.logging;
  const { trainIterations } = configuration.training;
  const { save } = configuration.checkpoint;
  // standard error usually appears on the same terminal as standard output
  const others = stream === process.stdout ? [process.stderr] : [];
  const console = new ConsoleReporter({
    stream,
    others,
    trainIterations,
    logInterval,
    isVerbose,
    // the output is short because a person watches a run of the default preset, whereas scripts read the
    // output of other runs
    areLinesShort: configuration.preset === findPresets(configuration.kind).whenNothingIsAsked,
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
  const sinks: MetricsSink[] = [console, ...metrics.all];
  try {
    if (tensorboardDirectory !== undefined)
      sinks.push(
        new TensorboardWriter({ directory: tensorboardDirectory, resume, run: save && resolve(save) }),
      );
    sinks.push(...(await openTracking({ ...options, onMessage: (text) => console.message(text) })));
  } catch (error) {
    await closeAfterError(sinks.map((sink) => () => sink.close('failed')));
    throw error;
  }
  return {
    all: [summary, evaluated, ...sinks],
    summary,
    close: async (outcome) => {
      const rising = risingValidation(evaluations);
      const rows: SummaryRow[] = rising === undefined ? [] : [['note', rising]];
      return [...rows, ...(await closeSinks(sinks, outcome))];
    },
  };
}

/** Closes all sinks, even if closing a sink fails. Returns the rows that they add to the summary. */
export async function closeSinks(
  sinks: readonly MetricsSink[],
  outcome: RunOutcome,
): Promise<readonly SummaryRow[]> {
  const rows: SummaryRow[] = [];
  await closeAll(
    sinks.map((sink) => async () => {
      rows.push(...((await sink.close(outcome)) ?? []));
    }),
  );
  return rows;
}

export interface OpenMetricsFilesOptions {
  /** The run folder, which contains metrics.jsonl; undefined for a run without a folder. */
  readonly directory: string | undefined;
  /** Another file for the same records (--metrics-jsonl). */
  readonly copy: string | undefined;
  /**
   * The iteration from which training continues. Records of later steps are removed, so that each step has
   * only one record.
   */
  readonly resumeIteration: number;
  /** Changes the record of a step before the record is written. Default: no change. */
  readonly onStep?: (metrics: StepMetrics) => StepMetrics;
  readonly onMessage: (text: string) => void;
}

type StepMetrics = Parameters<MetricsJsonlWriter['step']>[0];

/** The files with the metrics of steps and evaluations. */
export interface MetricsFiles {
  /** The writers, one for each file. */
  readonly all: readonly MetricsSink[];
  /** The evaluations that the file contained when the run was resumed, oldest first. */
  readonly evaluations: readonly EvaluatedStep[];
}

/**
 * Opens a run's metrics files: metrics.jsonl in its folder, and the additional file that a flag names. Called
 * only on rank 0.
 *
 * @throws ConfigurationError MTL_METRICS_FILE
 */
export async function openMetricsFiles(options: OpenMetricsFilesOptions): Promise<MetricsFiles> {
  const { directory, copy, resumeIteration, onStep = (step) => step, onMessage } = options;
  const own = directory === undefined ? undefined : metricsPath(directory);
  const paths = [own, isSamePlace(own, copy) ? undefined : copy].filter((path) => path !== undefined);
  const writers: MetricsJsonlWriter[] = [];
  try {
    for (const path of paths) writers.push(await MetricsJsonlWriter.open({ path, resumeIteration }));
  } catch (error) {
    await closeAfterError(writers.map((writer) => () => writer.close()));
    throw error;
  }
  for (const { path, movedAside } of writers) {
    if (movedAside !== undefined)
      onMessage(`  note: metrics of an earlier run were moved from ${path} to ${movedAside}`);
  }
  return {
    all: writers.map((writer) => ({
      step: (metrics) => writer.step(onStep(metrics)),
      validation: (result) => writer.validation(result),
      event: (event) => writer.event(event),
      close: () => writer.close(),
    })),
    evaluations: writers[0]?.evaluations ?? [],
  };
}
