import { closeSync, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { renamedLosses } from '@mtl/trainer/metrics-records';

export { renamedLosses };

/** A metrics.jsonl record, with the current names of losses. The record of a step has no `type`. */
export interface MetricsRecord {
  readonly type?: string;
  readonly time?: string;
  readonly iteration: number;
  /** The loss in nats per token; null if it was not finite. */
  readonly lm_loss: number | null;
  readonly [key: string]: unknown;
}

export interface LastMetrics {
  readonly step: MetricsRecord | undefined;
  readonly validation: MetricsRecord | undefined;
}

const blockBytes = 1 << 20;
/** The maximum number of bytes at the end of a file that are searched for an evaluation. */
const mostBytes = 16 << 20;

/**
 * Returns the last step and the last evaluation in a metrics.jsonl. The file is read backwards from its end.
 * Both are undefined if the file does not exist.
 */
export function lastMetrics(path: string): LastMetrics {
  const file = open(path);
  if (file === undefined) return { step: undefined, validation: undefined };
  try {
    return lastMetricsIn(file);
  } finally {
    closeSync(file);
  }
}

/** Does the same as `lastMetrics`, but for an open file. */
export function lastMetricsIn(file: number): LastMetrics {
  const { size } = fstatSync(file);
  for (let bytes = blockBytes; ; bytes *= 4) {
    const start = Math.max(0, size - bytes);
    const buffer = Buffer.alloc(size - start);
    const text = buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, start));
    const records = recordsIn(text).reverse();
    const step = records.find(({ type }) => type === undefined);
    const validation = records.find(({ type }) => type === 'validation');
    const isFound = step !== undefined && validation !== undefined;
    if (isFound || start === 0 || bytes >= mostBytes) return { step, validation };
  }
}

/** Reads all records of a metrics.jsonl. Returns an empty list if the file does not exist. */
export function readMetricsRecords(path: string): MetricsRecord[] {
  const file = open(path);
  if (file === undefined) return [];
  try {
    return recordsIn(readFileSync(file, 'utf8'));
  } finally {
    closeSync(file);
  }
}

function open(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Parses the records in complete lines. The first line may be cut off, and a running process may still be
 * writing the last line.
 */
function recordsIn(text: string): MetricsRecord[] {
  return text.split('\n').flatMap((line) => {
    try {
      const record = JSON.parse(line) as MetricsRecord | null;
      return Number.isInteger(record?.iteration) ? [renamedLosses(record!)] : [];
    } catch {
      return [];
    }
  });
}

/** Returns the path of the metrics file in the run folder `directory`. */
export const metricsPath = (directory: string): string => join(directory, 'metrics.jsonl');

/** An evaluation. Its loss is NaN if it was not finite. */
interface Evaluation {
  readonly iteration: number;
  readonly loss: number;
}

/** The minimum number of evaluations after the best evaluation that a warning requires. */
const fewest = 5;
/**
 * The minimum fraction of all steps so far that must follow the best evaluation before a warning is given.
 */
const leastShare = 0.1;
/** The minimum fraction by which the last loss must exceed the best loss before a warning is given. */
const leastRise = 0.01;

/**
 * Returns a message if the validation loss of a run has been rising for a long time, otherwise undefined.
 *
 * The loss counts as rising if three conditions hold: at least five evaluations and a tenth of all steps
 * follow the best evaluation; the last loss is more than 1 % above the best; and the mean loss of the later
 * half of these evaluations is above the mean loss of the earlier half.
 *
 * @param all the evaluations of a run, oldest first
 */
export function risingValidation(all: readonly Evaluation[]): string | undefined {
  const evaluations = all.filter(({ loss }) => Number.isFinite(loss));
  const last = evaluations.at(-1);
  if (last === undefined) return undefined;
  const best = evaluations.reduce((least, next) => (next.loss < least.loss ? next : least));
  const after = evaluations.filter(({ iteration }) => iteration > best.iteration);
  if (after.length < fewest || last.iteration - best.iteration < leastShare * last.iteration)
    return undefined;
  const half = Math.floor(after.length / 2);
  const isRising = mean(after.slice(-half)) > mean(after.slice(0, half));
  if (!isRising || last.loss <= best.loss * (1 + leastRise)) return undefined;
  return (
    `the validation loss has been rising since step ${best.iteration}, from ${best.loss.toFixed(4)} to ` +
    `${last.loss.toFixed(4)} at step ${last.iteration}: the model overfits its training data; train on more data, ` +
    'for fewer steps, or with a lower learning rate'
  );
}

const mean = (evaluations: readonly Evaluation[]): number =>
  evaluations.reduce((sum, { loss }) => sum + loss, 0) / evaluations.length;
