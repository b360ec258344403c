/**
 * Types of the server's JSON answers to the page. This file contains only types: the page is compiled for
 * browsers and imports nothing else of the server. A number that was not finite, or is not known, is null.
 */

/** See `RunState` of @mtl/runs. */
export type StateOfRun = 'running' | 'finished' | 'stopped' | 'failed' | 'unknown';

/** A run as the list shows it. */
export interface RunSummary {
  /** The name of the run's folder. */
  readonly id: string;
  readonly state: StateOfRun;
  /** The kind of model, such as `gpt`; null for a run without a record. */
  readonly model: string | null;
  readonly worldSize: number | null;
  /** The number of the last step. */
  readonly iteration: number;
  readonly trainIterations: number | null;
  /** The loss of the last step, in nats per token. */
  readonly loss: number | null;
  readonly validationLoss: number | null;
  readonly tokensPerSecond: number | null;
  readonly stepMs: number | null;
  /** ISO 8601. */
  readonly startedAt: string | null;
  /** The number of starts of the run: more than one after it was resumed or restarted. */
  readonly numStarts: number;
  /** The error that ended the run. */
  readonly error: string | null;
  /** A number that changes with every change of the run's folder. */
  readonly revision: number;
}

/** One start of a run: the first, or one that resumed or restarted it. */
export interface StartOfRun {
  readonly time: string;
  readonly host: string;
  readonly pid: number;
  /** The iteration that the start continued from. */
  readonly iteration: number;
  /** The end of the start; null while it runs, and if its process was killed. */
  readonly end: {
    readonly time: string;
    readonly reason: string;
    readonly iteration: number;
    readonly error: string | null;
    /** The remedy of the error. */
    readonly remedy: string | null;
  } | null;
}

export interface CheckpointOfRun {
  readonly iteration: number;
  /** The time at which the checkpoint's folder was last written, as ISO 8601. */
  readonly time: string;
  readonly bytes: number;
}

/** A text that the model wrote. */
export interface SampleOfRun {
  readonly time: string | null;
  readonly iteration: number;
  /** The whole sample, with its label. */
  readonly text: string;
  /** The kind of sample in words, such as `A sample`; null in files of older versions. */
  readonly label: string | null;
  /**
   * The text that a GPT was given, and the text that it wrote; null for other models, and in files of older
   * versions.
   */
  readonly prompt: string | null;
  readonly completion: string | null;
}

/** A record of metrics.jsonl that is neither a step nor an evaluation, such as a loss spike. */
export interface EventOfRun {
  readonly type: string;
  readonly time: string | null;
  readonly iteration: number;
  readonly kind: MarkKind;
  /** The event in words. */
  readonly text: string;
}

/**
 * The time and memory of each rank in the steps of the last log interval; lists have a value for each rank.
 */
export interface RanksOfRun {
  readonly iteration: number;
  /** Means of a step in milliseconds: the time without waiting for others, and the waiting time. */
  readonly computeMs: readonly (number | null)[];
  readonly waitedMs: readonly (number | null)[];
  readonly peakBytes: readonly (number | null)[];
  /** The host name of each rank; empty if the run does not record host names. */
  readonly hosts: readonly (string | null)[];
  /** The ranks that the run reports as slow and has not reported as fast again. */
  readonly slow: readonly number[];
}

/** The presence of expert loads in a run: the last step with loads, and the number of experts. */
export interface ExpertsOfRun {
  readonly iteration: number;
  readonly numLayers: number;
  readonly numExperts: number;
}

/** Loads of experts, relative to an even one: 1 is even. */
export interface ExpertsAnswer {
  /** The numbers of the layers that have experts. */
  readonly layers: readonly number[];
  readonly numExperts: number;
  /** Metrics of the last steps; lists have an element for each layer. */
  readonly newest: {
    readonly first: number;
    readonly last: number;
    readonly loads: readonly (readonly number[])[];
    /** The share of choices that were dropped because an expert was full. */
    readonly dropped: readonly (number | null)[];
    /** Mean entropy of the router's scores, in nats. */
    readonly entropy: readonly (number | null)[];
  };
  /** The layer of the following lists, which have an element for each interval of steps, oldest first. */
  readonly layer: number;
  readonly first: readonly number[];
  readonly last: readonly number[];
  readonly loads: readonly (readonly number[])[];
  readonly dropped: readonly (number | null)[];
  readonly entropy: readonly (number | null)[];
}

/** A value of a run; values of two runs with the same meaning have the same key. */
export interface ComparableValueOfRun {
  readonly key: string;
  readonly shown: unknown;
}

/** The values by which a run is compared with others: see `ComparableRun` of @mtl/runs. */
export interface ComparableOfRun {
  readonly isResolved: boolean;
  readonly flags: Readonly<Record<string, ComparableValueOfRun>>;
  readonly conditions: Readonly<Record<string, ComparableValueOfRun>>;
}

/** All information about a run except its curves. */
export interface RunDetails {
  readonly id: string;
  /** The path of the run's folder. */
  readonly directory: string;
  readonly revision: number;
  /** Flags of the last start, by name. */
  readonly flags: Readonly<Record<string, unknown>>;
  /** Commit, versions, threads, layout and datasets of the last start. */
  readonly conditions: Readonly<Record<string, unknown>>;
  /** The values in which the run may differ from other runs; null without a record. */
  readonly comparable: ComparableOfRun | null;
  readonly command: string | null;
  /** Flags of the run's command, without dashes, that `--load` with the run's own folder replaces. */
  readonly flagsOfStart: readonly string[];
  readonly starts: readonly StartOfRun[];
  /** The checkpoints, oldest first. */
  readonly checkpoints: readonly CheckpointOfRun[];
  /** The evaluation with the lowest loss; null for a run without evaluations. */
  readonly best: { readonly iteration: number; readonly loss: number } | null;
  /** The last ones, newest first. */
  readonly samples: readonly SampleOfRun[];
  /** The last ones, newest first. */
  readonly events: readonly EventOfRun[];
  readonly ranks: RanksOfRun | null;
  readonly experts: ExpertsOfRun | null;
  /** A text that changes whenever the trace of profiled steps is written; null if the folder has no trace. */
  readonly traceRevision: string | null;
  /**
   * Names of the run's curves, such as `lm_loss`; names of curves of evaluations begin with `validation.`.
   */
  readonly series: readonly string[];
  /** Notes on the run's curves in words, such as a validation loss that has been rising for long. */
  readonly notes: readonly string[];
  /** Messages about files that could not be read, with the reasons. */
  readonly problems: readonly string[];
}

/** The unit of the horizontal axis. */
export type Axis = 'iteration' | 'tokens' | 'seconds';

/** Points of a curve, in the order of `x`. */
export interface Points {
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
}

/** The 10th and the 90th percentile of the values whose median is a point of the curve. */
export interface Band {
  readonly low: readonly (number | null)[];
  readonly high: readonly (number | null)[];
}

export interface Series extends Points {
  /**
   * The spread of values, if it was requested and there are enough values: then `y` has medians. Otherwise
   * null.
   */
  readonly band: Band | null;
  /** The exponential moving average of all values, if it was requested; otherwise null. */
  readonly smoothed: Points | null;
}

/** The kind of a mark. `reported`: a loss spike whose update was kept. */
export type MarkKind =
  | 'checkpoint'
  | 'restart'
  | 'error'
  | 'spike'
  | 'reported'
  | 'skipped'
  | 'rollback'
  | 'event';

/** An event of a step, for a tick below the curves. */
export interface MarkOfRun {
  readonly kind: MarkKind;
  readonly iteration: number;
  /** The position on the horizontal axis of the curves. */
  readonly x: number;
  readonly text: string;
}

/** Curves of one run. */
export interface SeriesAnswer {
  readonly id: string;
  readonly revision: number;
  /** The requested curves, as far as the run has them. */
  readonly series: Readonly<Record<string, Series>>;
  /** The last marks of each kind, in the order of `x`. */
  readonly marks: readonly MarkOfRun[];
}

/** The steps of a trace: one picture for each pipeline. */
export interface TraceAnswer {
  readonly pipelines: readonly {
    readonly pipeline: number;
    readonly numSteps: number;
    /** Milliseconds of the step, and the ratio of a rank's waiting time to its work. */
    readonly measured: { readonly makespan: number; readonly bubbleFraction: number };
    readonly simulated: { readonly makespan: number; readonly bubbleFraction: number };
  }[];
}

/** An event of the stream: the first one has all runs, later ones the runs that changed. */
export interface RunsEvent {
  /** The folder that is watched. */
  readonly directory: string;
  readonly runs: readonly RunSummary[];
  /** The names of runs whose folders no longer exist. */
  readonly removed: readonly string[];
  /** True if `runs` are all runs: the page forgets any other. */
  readonly isAll: boolean;
}
