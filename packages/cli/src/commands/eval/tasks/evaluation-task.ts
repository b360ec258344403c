import type { LoadedGpt } from '@mtl/runs';

/** The windows into which a long text is divided. */
export interface EvaluationWindows {
  /** Number of tokens in a window. */
  readonly sequenceLength: number;
  /** The distance from the start of a window to the start of the next window, in tokens. */
  readonly stride: number;
}

/** The result of a task: a report for `--json`, and the same report formatted as a table. */
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

/** An evaluation task, which reads a file, scores a model, and formats the result. */
export interface EvaluationTask {
  readonly name: string;
  /** The default stride, in tokens; undefined for a task without windows. */
  readonly defaultStride: number | undefined;
  /**
   * Runs the task.
   *
   * @throws DataError MTL_EVALUATION_DATA if the file does not have the task's format
   */
  run(options: TaskOptions): Promise<TaskResult>;
}
