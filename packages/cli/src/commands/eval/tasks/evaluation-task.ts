import type { LoadedGpt } from '@mtl/runs';

/** The windows through which a model looks at a long text. */
export interface EvaluationWindows {
  /** Tokens that it sees at once. */
  readonly sequenceLength: number;
  /** By how many the windows move. */
  readonly stride: number;
}

/** A report for `--json`, and the same as a table. */
export interface TaskResult {
  readonly report: object;
  readonly table: string;
}

export interface TaskOptions {
  /** The path of the task's file. */
  readonly path: string;
  readonly loaded: LoadedGpt;
  readonly windows: EvaluationWindows;
  readonly batchSize: number;
  readonly onProgress: (fraction: number) => void;
}

/** An evaluation that papers report: what its file looks like, how it is scored, how the result is shown. */
export interface EvaluationTask {
  readonly name: string;
  /** The default step from a window to the next; undefined where a task has none. */
  readonly defaultStride: number | undefined;
  /** @throws DataError MTL_EVALUATION_DATA when the file is not one of the task */
  run(options: TaskOptions): Promise<TaskResult>;
}
