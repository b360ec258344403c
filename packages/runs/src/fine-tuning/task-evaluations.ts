import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { TrainingProcesses } from '@mtl/run-parts';
import type { EvaluatedLoss } from '@mtl/trainer';
import { type EvaluateTaskSetOptions, evaluateTaskSet } from './evaluate-task-set.js';
import {
  type EpochResult,
  readSeedResult,
  type SeedResult,
  type SetResult,
  writeResult,
} from './fine-tuning-results.js';
import { resultPath } from './seed-folder.js';
import type { OpenedTask, TaskSet } from './task-set.js';

export interface TaskEvaluationsOptions {
  readonly seed: number;
  /** The folder of the seed; undefined where nothing is saved. */
  readonly directory: string | undefined;
  readonly task: OpenedTask;
  readonly processes: TrainingProcesses;
  /** How a set goes through the model. */
  readonly evaluate: Omit<EvaluateTaskSetOptions, 'set' | 'processes'>;
  /** Whether the seed goes on from what is in its folder. */
  readonly resume: boolean;
  readonly onEpoch: (result: EpochResult) => void;
}

/**
 * What the model of a seed was found to be able to do: scores after every epoch, predictions of the last one,
 * and the file with both. All ranks call its methods.
 */
export class TaskEvaluations {
  readonly #options: TaskEvaluationsOptions;
  #epochs: readonly EpochResult[];
  #predictions: readonly string[] = [];

  /** @param options.iteration that the seed goes on from: later epochs of an earlier start do not count */
  constructor(options: TaskEvaluationsOptions & { readonly iteration: number }) {
    this.#options = options;
    this.#epochs = (leftBehind(options)?.epochs ?? []).filter(
      (epoch) => epoch.iteration <= options.iteration,
    );
  }

  result({ isDone }: { readonly isDone: boolean }): SeedResult {
    return { seed: this.#options.seed, epochs: this.#epochs, predictions: this.#predictions, isDone };
  }

  /** Scores the sets with labels after an epoch; what it returns is their mean loss. */
  async afterEpoch(at: { readonly epoch: number; readonly iteration: number }): Promise<EvaluatedLoss> {
    const { task, onEpoch } = this.#options;
    const sets: Record<string, SetResult> = {};
    const files: string[] = [];
    for (const set of task.valid) {
      const { loss, predictions } = await this.#evaluate(set);
      sets[set.name] = { loss: loss!, ...set.metrics(predictions) };
      files.push(...this.#write(set, predictions));
    }
    const result = { ...at, sets };
    this.#epochs = [...this.#epochs.filter((one) => one.epoch < at.epoch), result];
    this.#predictions = files;
    this.#writeResult({ isDone: false });
    onEpoch(result);
    const losses = Object.values(sets).map(({ loss }) => loss);
    return { loss: losses.reduce((sum, loss) => sum + loss, 0) / losses.length, tokenLosses: [] };
  }

  /** Predicts the sets without labels where the seed is done, and writes its results. */
  async atEnd({ isDone }: { readonly isDone: boolean }): Promise<void> {
    for (const set of isDone ? this.#options.task.test : []) {
      const { predictions } = await this.#evaluate(set);
      this.#predictions = [...this.#predictions, ...this.#write(set, predictions)];
    }
    this.#writeResult({ isDone });
  }

  #evaluate(set: TaskSet) {
    const { evaluate, processes } = this.#options;
    return evaluateTaskSet({ ...evaluate, set, processes });
  }

  /** The files that the first rank wrote. */
  #write(set: TaskSet, predictions: Parameters<TaskSet['write']>[0]): readonly string[] {
    const { directory: folder, processes } = this.#options;
    if (folder === undefined || !processes.isFirst) return [];
    const directory = join(folder, 'predictions');
    mkdirSync(directory, { recursive: true });
    return set.write(predictions, directory);
  }

  #writeResult(how: { readonly isDone: boolean }): void {
    const { directory, processes } = this.#options;
    if (processes.isFirst && directory !== undefined) writeResult(resultPath(directory), this.result(how));
  }
}

/** What the first rank finds, on all ranks: others may have storage of their own. */
function leftBehind({ directory, processes, resume }: TaskEvaluationsOptions): SeedResult | undefined {
  if (directory === undefined || !resume) return undefined;
  return processes.agree(processes.isFirst ? readSeedResult(resultPath(directory)) : undefined);
}
