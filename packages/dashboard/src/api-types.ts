/**
 * Types of the server's JSON answers to the page. This file contains only types, because the page is compiled
 * for browsers and imports nothing else from the server. A number that was not finite, or is unknown, is
 * null.
 */

/** The state of a run (see `RunState` of @mtl/run-records). */
export type StateOfRun = 'running' | 'finished' | 'stopped' | 'failed' | 'unknown';

/** The facts that the list shows about a run. */
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
  /** The time of the first start, in ISO 8601. */
  readonly startedAt: string | null;
  /** How often the run has been started, which is more than once after a resumption or restart. */
  readonly numStarts: number;
  /** The error that ended the run. */
  readonly error: string | null;
  /** A number that changes with every change of the run's folder. */
  readonly revision: number;
}

/** One start of a run: its first start, or a start that resumed or restarted the run. */
export interface StartOfRun {
  readonly time: string;
  readonly host: string;
  readonly pid: number;
  /** The iteration from which the run continued. */
  readonly iteration: number;
  /** How this start of the run ended; null while it runs, or if its process was killed. */
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

/** A sample of the model's output. */
export interface SampleOfRun {
  readonly time: string | null;
  readonly iteration: number;
  /** The complete sample, with its label. */
  readonly text: string;
  /** The title of the sample, such as `A sample`; null in files of older versions. */
  readonly label: string | null;
  /** The prompt of a GPT and its continuation; null for other models, and in files of older versions. */
  readonly prompt: string | null;
  readonly completion: string | null;
}

/** A record of metrics.jsonl that is neither a step nor an evaluation, such as a loss spike. */
export interface EventOfRun {
  readonly type: string;
  readonly time: string | null;
  readonly iteration: number;
  readonly kind: MarkKind;
  /** A description of the event. */
  readonly text: string;
}

/**
 * The time and memory that each rank needed in the steps of the last log interval. Lists have one value for
 * each rank.
 */
export interface RanksOfRun {
  readonly iteration: number;
  /**
   * Mean milliseconds per step: `computeMs` is the time without waiting for other ranks, and `waitedMs` is
   * the time spent waiting.
   */
  readonly computeMs: readonly (number | null)[];
  readonly waitedMs: readonly (number | null)[];
  readonly peakBytes: readonly (number | null)[];
  /** The host name of each rank; empty if the run does not record them. */
  readonly hosts: readonly (string | null)[];
  /** The ranks that the run has reported as slow, and has not reported as normal since then. */
  readonly slow: readonly number[];
}

/**
 * Facts about the recorded expert loads of a run: the last step with loads, and how many layers and experts
 * there are.
 */
export interface ExpertsOfRun {
  readonly iteration: number;
  readonly numLayers: number;
  readonly numExperts: number;
}

/** Loads of experts, relative to an even load, which is 1. */
export interface ExpertsAnswer {
  /** The indices of the layers that have experts. */
  readonly layers: readonly number[];
  readonly numExperts: number;
  /** Loads in the last steps. Lists have one element for each layer. */
  readonly newest: {
    readonly first: number;
    readonly last: number;
    readonly loads: readonly (readonly number[])[];
    /** The fraction of expert assignments that were dropped because an expert was full. */
    readonly dropped: readonly (number | null)[];
    /** The mean entropy of the router's scores, in nats. */
    readonly entropy: readonly (number | null)[];
  };
  /**
   * The index of the layer to which the following lists belong. The lists have one element for each interval
   * of steps, oldest first.
   */
  readonly layer: number;
  readonly first: readonly number[];
  readonly last: readonly number[];
  readonly loads: readonly (readonly number[])[];
  readonly dropped: readonly (number | null)[];
  readonly entropy: readonly (number | null)[];
}

/** A value in the comparison of runs. Values with the same meaning have the same key. */
export interface ComparableValueOfRun {
  readonly key: string;
  readonly shown: unknown;
}

/** The values by which a run is compared with other runs (see `ComparableRun` of @mtl/run-records). */
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
  /** The values that are compared between runs; null without a record. */
  readonly comparable: ComparableOfRun | null;
  readonly command: string | null;
  /**
   * Flags of the run's command, without dashes. To continue the run, they are replaced by `--load` with the
   * run's own folder.
   */
  readonly flagsOfStart: readonly string[];
  readonly starts: readonly StartOfRun[];
  /** The checkpoints, oldest first. */
  readonly checkpoints: readonly CheckpointOfRun[];
  /** The evaluation with the lowest loss; null for a run without evaluations. */
  readonly best: { readonly iteration: number; readonly loss: number } | null;
  /** The last samples, newest first. */
  readonly samples: readonly SampleOfRun[];
  /** The last events, newest first. */
  readonly events: readonly EventOfRun[];
  readonly ranks: RanksOfRun | null;
  readonly experts: ExpertsOfRun | null;
  /** A string that changes whenever the trace of profiled steps is written; null without a trace. */
  readonly traceRevision: string | null;
  /**
   * Names of the run's curves, such as `lm_loss`; names of curves of evaluations begin with `validation.`.
   */
  readonly series: readonly string[];
  /** Notes about the run's curves, such as a validation loss that has been rising for long. */
  readonly notes: readonly string[];
  /** Messages that say which files could not be read, and why. */
  readonly problems: readonly string[];
}

/** The unit of the horizontal axis. */
export type Axis = 'iteration' | 'tokens' | 'seconds';

/** The points of a curve, sorted by `x`. */
export interface Points {
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
}

/** The 10th and the 90th percentile of the values around each point of a curve of medians. */
export interface Band {
  readonly low: readonly (number | null)[];
  readonly high: readonly (number | null)[];
}

export interface Series extends Points {
  /**
   * The band around the curve if it was requested and there are enough values; the curve then consists of
   * medians. Null if there is no band.
   */
  readonly band: Band | null;
  /** The exponential moving average of all values if it was requested; otherwise null. */
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

/** A mark below the curves, for an event at a step. */
export interface MarkOfRun {
  readonly kind: MarkKind;
  readonly iteration: number;
  /** The position of the mark on the horizontal axis. */
  readonly x: number;
  readonly text: string;
}

/** Curves of one run. */
export interface SeriesAnswer {
  readonly id: string;
  readonly revision: number;
  /** The requested curves that the run has, keyed by name. */
  readonly series: Readonly<Record<string, Series>>;
  /** The last marks of each kind, sorted by `x`. */
  readonly marks: readonly MarkOfRun[];
}

/** The profiled steps of each pipeline, measured and simulated. */
export interface TraceAnswer {
  readonly pipelines: readonly {
    readonly pipeline: number;
    readonly numSteps: number;
    /**
     * The length of the step in milliseconds, and the ratio of a rank's waiting time to its computing time.
     */
    readonly measured: { readonly makespan: number; readonly bubbleFraction: number };
    readonly simulated: { readonly makespan: number; readonly bubbleFraction: number };
  }[];
}

/** An event of the stream. The first event has all runs, and later events have the runs that changed. */
export interface RunsEvent {
  /** The watched directory. */
  readonly directory: string;
  readonly runs: readonly RunSummary[];
  /** The names of runs whose folders no longer exist. */
  readonly removed: readonly string[];
  /** True if `runs` contains all runs, so that the page must forget all other runs. */
  readonly isAll: boolean;
}
