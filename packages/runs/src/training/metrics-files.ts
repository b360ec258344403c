import { isSamePlace } from '@mtl/saved-models/internal';
import { type EvaluatedStep, MetricsJsonlWriter, type MetricsSink } from '@mtl/trainer';
import { metricsPath } from '../records/metrics-path.js';

export interface OpenMetricsFilesOptions {
  /** The run folder, whose metrics.jsonl is written; undefined where a run has none. */
  readonly directory: string | undefined;
  /** Another file that gets the same records (--metrics-jsonl). */
  readonly copy: string | undefined;
  /** The iteration that training goes on from: a file keeps one record a step. */
  readonly resumeIteration: number;
  /** Changes a record before it is written. Default: none. */
  readonly onStep?: (metrics: StepMetrics) => StepMetrics;
  readonly onMessage: (text: string) => void;
}

type StepMetrics = Parameters<MetricsJsonlWriter['step']>[0];

/** The files that records of steps and evaluations go to. */
export interface MetricsFiles {
  /** One for each file. */
  readonly all: readonly MetricsSink[];
  /** Of the run before it was resumed, oldest first. */
  readonly evaluations: readonly EvaluatedStep[];
  close(): void;
}

/**
 * Opens the files of metrics of a run: that of its folder and the copy that a flag names. Only rank 0 calls
 * it.
 *
 * @throws ConfigurationError MTL_METRICS_FILE
 */
export async function openMetricsFiles(options: OpenMetricsFilesOptions): Promise<MetricsFiles> {
  const { directory, copy, resumeIteration, onStep = (step) => step, onMessage } = options;
  const own = directory === undefined ? undefined : metricsPath(directory);
  const paths = [own, isSamePlace(own, copy) ? undefined : copy].filter((path) => path !== undefined);
  const writers: MetricsJsonlWriter[] = [];
  const close = (): void => {
    for (const writer of writers) writer.close();
  };
  try {
    for (const path of paths) writers.push(await MetricsJsonlWriter.open({ path, resumeIteration }));
  } catch (error) {
    close();
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
    close,
  };
}
