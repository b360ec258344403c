import { adapterExportFlags, adapterStartFlags } from '@mtl/configuration/internal';
import type { RunRecord, RunStart } from './run-record.js';

/** A value that is compared between runs. */
export interface ComparableValue {
  /**
   * A key that is equal for values with the same meaning, such as two paths to files with the same content.
   */
  readonly key: string;
  /** The value for display. */
  readonly shown: unknown;
}

/** The properties of a run that are compared. */
export interface ComparableRun {
  /**
   * True if the flags are the values in effect. Runs of older versions record only the flags that were given.
   */
  readonly isResolved: boolean;
  readonly flags: Readonly<Record<string, ComparableValue>>;
  /** Further properties of the run, such as commit, versions, threads, layout and datasets. */
  readonly conditions: Readonly<Record<string, ComparableValue>>;
}

/**
 * Flags that are not compared: paths, flags that apply to only one start, and flags whose values are compared
 * in a different form, as a condition of the run or as another flag.
 */
const notCompared = new Set([
  ...['save', 'save-hf', ...adapterExportFlags, 'load', 'ckpt-step', 'no-load-optim', 'no-load-rng'],
  ...['override-opt-param-scheduler', 'use-checkpoint-opt-param-scheduler', 'use-checkpoint-args'],
  ...['metrics-jsonl', 'tensorboard-dir', 'profile-steps', 'profile-trace', 'data-cache-path'],
  ...['wandb-project', 'wandb-exp-name', 'wandb-entity'],
  ...['mlflow-tracking-uri', 'mlflow-experiment-name', 'mlflow-run-name'],
  ...['verbose', 'no-eval-samples', 'compare-with-plan', 'dry-run'],
  ...['exit-interval', 'exit-duration-in-mins'],
  // compared as conditions
  ...['threads', 'device', 'num-processes', 'train-data'],
  // compared as --train-iters
  ...['epochs', 'train-samples'],
]);

/**
 * The flags for initial weights. They are taken from the first start, because a resumed run loads a
 * checkpoint instead.
 */
const ofFirstStart: readonly string[] = ['load-hf', ...adapterStartFlags, 'finetune'];

/** Returns the flags without `notCompared`. */
export function comparedFlags(flags: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(flags).filter(([name]) => !notCompared.has(name)));
}

/** Returns the properties of a run to compare, from the last start in its record. */
export function comparableRun({ starts }: RunRecord): ComparableRun {
  const [first, last] = [starts[0]!, starts.at(-1)!];
  const origin = last.iteration > 0 ? first : last;
  const flags: Record<string, unknown> = { ...comparedFlags(last.resolved ?? last.flags) };
  for (const name of ofFirstStart) flags[name] = (origin.resolved ?? origin.flags)[name];
  // the number of iterations is compared as the flag --train-iters
  const { preset: _, 'train iterations': trainIterations, ...conditions } = listConditions(last);
  flags['train-iters'] = trainIterations;
  return {
    isResolved: last.resolved !== undefined,
    flags: comparableValues(flags, (name) =>
      ofFirstStart.includes(name) ? describeContent(origin, name) : describeContent(last, name),
    ),
    conditions: comparableValues(
      { ...conditions, datasets: last.datasets.map(nameOfDataset).join(' ') },
      (name) => (name === 'datasets' ? (conditions.datasets as string) : undefined),
    ),
  };
}

/** Returns the values with their keys. Undefined values are left out. */
function comparableValues(
  values: Readonly<Record<string, unknown>>,
  findKey: (name: string) => string | undefined,
): Readonly<Record<string, ComparableValue>> {
  const stated = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(
    stated.map(([name, value]) => [name, { key: findKey(name) ?? JSON.stringify(value), shown: value }]),
  );
}

/** Returns a key for the content of a flag's file; undefined if the flag's value itself is the key. */
function describeContent({ contents, flags, resolved }: RunStart, name: string): string | undefined {
  if (name !== 'data-path') return contents?.[name];
  // data is compared as a condition of the run, so only the weights of the datasets are compared here
  const words = (resolved ?? flags)[name];
  return Array.isArray(words)
    ? words.filter((word) => word !== '' && Number.isFinite(+word)).join(' ')
    : undefined;
}

function nameOfDataset(dataset: RunStart['datasets'][number]): string {
  const path = 'prefix' in dataset ? dataset.prefix : dataset.path;
  return `${path} (${dataset.sampledSha256.slice(0, 12)})`;
}

/** Returns the conditions of a start, by name. Each is a string with one line, or a number. */
export function listConditions(start: RunStart): Readonly<Record<string, unknown>> {
  return {
    model: start.model,
    preset: start.preset,
    task: start.task,
    commit: start.commit,
    ...start.versions,
    'instruction set': start.instructionSet,
    device: start.device,
    threads: start.threads.count,
    processes: start.layout.worldSize,
    'data-parallel': start.layout.data,
    'train iterations': start.trainIterations,
    datasets: start.datasets.map(({ sampledSha256 }) => sampledSha256.slice(0, 12)).join(' '),
  };
}
