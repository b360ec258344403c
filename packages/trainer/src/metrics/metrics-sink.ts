import type { TrainingReporter } from '../training-reporter.js';

/** How a run ended: a stopped one may go on. */
export type RunOutcome = 'finished' | 'stopped' | 'failed';

/** A fact of a run's summary. */
export type SummaryRow = readonly [name: string, value: string];

/** Where the metrics of a run go: the console, a file, a service. */
export interface MetricsSink extends TrainingReporter {
  /** Once the run has ended; further calls do nothing. What the summary of the run adds of it. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most sinks have nothing to add.
  close(outcome: RunOutcome): void | Promise<readonly SummaryRow[]>;
}
