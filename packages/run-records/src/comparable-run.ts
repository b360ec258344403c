import { adapterExportFlags, adapterStartFlags } from '@mtl/configuration/internal';
import type { RunRecord, RunStart } from './run-record.js';

/** A value of a run that is compared between runs. */
export interface ComparableValue {
  /** Equal for values that mean the same, such as two paths of files with the same content. */
  readonly key: string;
  /** The value for display. */
  readonly shown: unknown;
}

/** The part of a run that is compared. */
export interface ComparableRun {
  /** True if the flags have the values in force. A run of an older version records only the given flags. */
  readonly isResolved: boolean;
  readonly flags: Readonly<Record<string, ComparableValue>>;
  /** Further conditions of the run: commit, versions, threads, layout, datasets. */
  readonly conditions: Readonly<Record<string, ComparableValue>>;
}

/**
 * Flags that explain no difference between two runs: paths, flags of a single start, and flags that a
 * condition or another flag covers.
 */
const notCompared = new Set([
  ...['save', 'save-hf', ...adapterExportFlags, 'load', 'ckpt-step', 'no-load-optim', 'no-load-rng'],
  ...['override-opt-param-scheduler', 'use-checkpoint-opt-param-scheduler', 'use-checkpoint-args'],
  ...['metrics-jsonl', 'tensorboard-dir', 'profile-steps', 'profile-trace', 'data-cache-path'],
  ...['wandb-project', 'wandb-exp-name', 'wandb-entity'],
  ...['mlflow-tracking-uri', 'mlflow-experiment-name', 'mlflow-run-name'],
  ...['verbose', 'no-eval-samples', 'compare-with-plan', 'dry-run'],
  ...['exit-interval', 'exit-duration-in-mins'],
  // conditions
  ...['threads', 'device', 'num-processes', 'train-data'],
  // --train-iters
  ...['epochs', 'train-samples'],
]);

/** Flags of the initial weights: a resumed run has its checkpoint instead. */
const ofFirstStart: readonly string[] = ['load-hf', ...adapterStartFlags, 'finetune'];

/** Returns the flags among `flags` that distinguish training runs. */
export function comparedFlags(flags: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(flags).filter(([name]) => !notCompared.has(name)));
}

/** Returns the compared part of the run with this record, from its last start. */
export function comparableRun({ starts }: RunRecord): ComparableRun {
  const [first, last] = [starts[0]!, starts.at(-1)!];
  const origin = last.iteration > 0 ? first : last;
  const flags: Record<string, unknown> = { ...comparedFlags(last.resolved ?? last.flags) };
  for (const name of ofFirstStart) flags[name] = (origin.resolved ?? origin.flags)[name];
  // with --train-iters
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

/** Returns values with a key, without undefined values. */
function comparableValues(
  values: Readonly<Record<string, unknown>>,
  findKey: (name: string) => string | undefined,
): Readonly<Record<string, ComparableValue>> {
  const stated = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(
    stated.map(([name, value]) => [name, { key: findKey(name) ?? JSON.stringify(value), shown: value }]),
  );
}

/** Returns a key for the content of the file that a flag names; undefined if the value itself is compared. */
function describeContent({ contents, flags, resolved }: RunStart, name: string): string | undefined {
  if (name !== 'data-path') return contents?.[name];
  // the datasets are a condition, so only their weights are compared here
  const words = (resolved ?? flags)[name];
  return Array.isArray(words)
    ? words.filter((word) => word !== '' && Number.isFinite(+word)).join(' ')
    : undefined;
}

function nameOfDataset(dataset: RunStart['datasets'][number]): string {
  const path = 'prefix' in dataset ? dataset.prefix : dataset.path;
  return `${path} (${dataset.sampledSha256.slice(0, 12)})`;
}

/** Returns the other conditions of a start, by name; each is one line of text or a number. */
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
