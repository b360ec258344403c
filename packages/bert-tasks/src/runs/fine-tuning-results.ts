import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CheckpointError } from '@mtl/errors';
import { writeFileAtomically } from '@mtl/errors/files';
import { median } from '@mtl/pipeline/internal';
import type { TaskMetrics } from './tasks.js';

/** A model's scores on one evaluated set. */
export interface SetResult extends TaskMetrics {
  /** Mean loss over the samples, in nats. */
  readonly loss: number;
}

/** The results of an epoch. */
export interface EpochResult {
  readonly epoch: number;
  readonly iteration: number;
  /** Results by the names of the sets. */
  readonly sets: Readonly<Record<string, SetResult>>;
}

/** The results of a seed. */
export interface SeedResult {
  readonly seed: number;
  readonly epochs: readonly EpochResult[];
  /** The paths of the files with the predictions after the last epoch. */
  readonly predictions: readonly string[];
  /** True if the last epoch has ended. */
  readonly isDone: boolean;
}

/** Returns the results that an interrupted run stored for a seed; undefined if there are none. */
export function readSeedResult(path: string): SeedResult | undefined {
  if (!existsSync(path)) return undefined;
  try {
    // a diverged model has the loss NaN, which JSON stores as null
    return JSON.parse(readFileSync(path, 'utf8'), (_, value: unknown) => value ?? Number.NaN) as SeedResult;
  } catch (cause) {
    throw new CheckpointError('MTL_FINE_TUNING_RESULT', `${path} is not what a fine-tuning wrote`, {
      remedy: 'remove it: its seed is evaluated again from the last checkpoint',
      exitCode: 2,
      cause,
    });
  }
}

/** Writes a result as JSON, for users to read and for resumed runs. */
export function writeResult(path: string, result: unknown): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileAtomically(path, [`${JSON.stringify(result, undefined, 2)}\n`]);
}

/**
 * Returns, for every score, the median over the seeds' last epochs, as reported in the paper (Shoeybi et al.
 * 2019, table 5). Unfinished seeds do not count.
 */
export function medianResult(seeds: readonly SeedResult[]): Readonly<Record<string, TaskMetrics>> {
  const last = seeds.filter(({ isDone }) => isDone).flatMap(({ epochs }) => epochs.at(-1) ?? []);
  const [first] = last;
  if (first === undefined) return {};
  return Object.fromEntries(
    Object.entries(first.sets).map(([set, metrics]) => [
      set,
      Object.fromEntries(
        Object.keys(metrics).map((name) => [name, median(last.map(({ sets }) => sets[set]![name]!))]),
      ),
    ]),
  );
}

/** Returns the path of the folder with the checkpoints and results of a seed. */
export const seedDirectory = (save: string, seed: number): string => join(save, `seed-${seed}`);

/** Returns the path of the file with the results of a seed. */
export const resultPath = (directory: string): string => join(directory, 'result.json');
