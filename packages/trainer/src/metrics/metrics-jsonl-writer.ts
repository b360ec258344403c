import {
  closeSync,
  createReadStream,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { ConfigurationError } from '@mtl/errors';
import { renameFileSync } from '@mtl/errors/files';
import { renamedLosses } from './metrics-records.js';
import type {
  EvaluatedStep,
  MetricsSink,
  StepMetrics,
  TrainingEvent,
  ValidationLoss,
} from './training-reports.js';
import { validationMetrics } from './training-reports.js';

interface MetricsJsonlWriterOptions {
  /** The path of the file. Its folder is created if it is missing. */
  readonly path: string;
  /** The iteration of the checkpoint from which training resumes, or 0 for training from the start. */
  readonly resumeIteration?: number;
  /** Returns the time to write in a record. Default: the current time. */
  readonly now?: () => Date;
}

/**
 * Appends JSON objects to a file, one per line: a record for each step, for each evaluation (with type
 * `validation`), and for each event (with the event's type). `time` is the time of writing (ISO 8601, UTC,
 * milliseconds). A value that is not finite, such as the gradient norm of a skipped step, becomes null,
 * because JSON cannot represent it. All other values keep full precision.
 *
 * The file always has one record per step and per evaluation, in order. An interrupted run may have written
 * records after its last checkpoint. A resume drops these records: the remaining records are written to a
 * temporary file, which then replaces the old file. A run from the start renames an older file instead (see
 * `movedAside`).
 */
export class MetricsJsonlWriter implements MetricsSink {
  readonly path: string;
  /**
   * The new path of an earlier training run's metrics file, which was renamed; undefined if there was none.
   * Callers print the path.
   */
  readonly movedAside: string | undefined;
  /** The number of dropped lines. The resumed training run writes these iterations again. */
  readonly droppedLines: number;
  /** The losses of the evaluations that a resume found in the file and kept, oldest first. */
  readonly evaluations: readonly EvaluatedStep[];
  readonly #now: () => Date;
  #descriptor: number | undefined;
  /**
   * The iteration of the file's last record, and the byte at which this record starts. Undefined if the last
   * record is not an evaluation.
   */
  #lastValidation: { readonly iteration: number; readonly start: number } | undefined;

  private constructor(path: string, found: FoundFile, now: () => Date) {
    this.path = path;
    this.movedAside = found.movedAside;
    this.droppedLines = found.droppedLines ?? 0;
    this.evaluations = found.evaluations ?? [];
    this.#lastValidation = found.lastValidation;
    this.#now = now;
    this.#descriptor = openSync(path, 'a');
  }

  /**
   * @throws ConfigurationError `MTL_METRICS_FILE` if the file cannot be written, or if it exists and a line
   * is not
   *   a metrics record; the message names the line
   */
  static async open(options: MetricsJsonlWriterOptions): Promise<MetricsJsonlWriter> {
    const { path, resumeIteration = 0, now = () => new Date() } = options;
    try {
      mkdirSync(dirname(path), { recursive: true });
      return new MetricsJsonlWriter(path, await prepareFile(path, resumeIteration), now);
    } catch (error) {
      throw notWritable(path, error, { exitCode: 2 });
    }
  }

  /**
   * Appends the record of a step. When the call returns, the record is in the file, not only in a buffer of
   * this process.
   *
   * @throws ConfigurationError `MTL_METRICS_FILE` if the file cannot be written
   */
  step(metrics: StepMetrics): void {
    this.#append({ time: this.#now().toISOString(), ...metricsObject(metrics) });
    this.#lastValidation = undefined;
  }

  /**
   * Appends the record of an evaluation. Replaces the last record if it is an evaluation after the same
   * iteration, because a resumed run with nothing left to train evaluates again.
   *
   * @throws the errors of `step`
   */
  validation(result: ValidationLoss): void {
    const { iteration } = result;
    const descriptor = this.#openDescriptor();
    if (this.#lastValidation?.iteration === iteration) ftruncateSync(descriptor, this.#lastValidation.start);
    const start = fstatSync(descriptor).size;
    const losses = Object.fromEntries(validationMetrics(result).map(({ key, value }) => [key, value]));
    this.#append({ type: 'validation', time: this.#now().toISOString(), iteration, ...losses });
    this.#lastValidation = { iteration, start };
  }

  /**
   * Appends the record of an event. The record's type is the event's type.
   *
   * @throws the errors of `step`
   */
  event({ type, iteration, fields }: TrainingEvent): void {
    this.#append({ type, time: this.#now().toISOString(), iteration, ...fields });
    this.#lastValidation = undefined;
  }

  /** Makes the lines durable and closes the file. Further calls do nothing. */
  close(): void {
    if (this.#descriptor === undefined) return;
    fsyncSync(this.#descriptor);
    closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #append(record: object): void {
    const descriptor = this.#openDescriptor();
    try {
      writeSync(descriptor, `${JSON.stringify(record)}\n`);
    } catch (error) {
      throw notWritable(this.path, error, { exitCode: 1 });
    }
  }

  #openDescriptor(): number {
    if (this.#descriptor !== undefined) return this.#descriptor;
    throw new ConfigurationError('MTL_METRICS_FILE', `${this.path} is closed`, { exitCode: 1 });
  }
}

/** The contents of an existing metrics file. */
interface FoundFile {
  readonly movedAside?: string;
  readonly droppedLines?: number;
  readonly lastValidation?: { readonly iteration: number; readonly start: number } | undefined;
  readonly evaluations?: readonly EvaluatedStep[];
}

async function prepareFile(path: string, resumeIteration: number): Promise<FoundFile> {
  if (!existsSync(path)) return {};
  const status = statSync(path);
  if (status.isDirectory()) throw new Error('a directory');
  // devices and pipes have size 0 as well
  if (status.size === 0) return {};
  if (resumeIteration === 0) return { movedAside: moveAside(path) };
  return await dropLinesBeyond(path, resumeIteration);
}

function notWritable(
  path: string,
  error: unknown,
  { exitCode }: { readonly exitCode: 1 | 2 },
): ConfigurationError {
  if (error instanceof ConfigurationError) return error;
  return new ConfigurationError('MTL_METRICS_FILE', `${path}: ${(error as Error).message}`, {
    expected: 'a file that can be written',
    exitCode,
    cause: error,
    remedy: 'free space on that disk, or have the metrics written elsewhere',
  });
}

/** Returns the record of a step, with the key names that are documented for metrics.jsonl. */
function metricsObject(metrics: StepMetrics): Record<string, unknown> {
  return {
    iteration: metrics.iteration,
    consumed_samples: metrics.consumedSamples,
    consumed_tokens: metrics.consumedTokens,
    lm_loss: metrics.loss,
    ...metrics.otherLosses,
    grad_norm: metrics.gradNorm,
    learning_rate: metrics.learningRate,
    // undefined is not written
    decoupled_learning_rate: metrics.decoupledLearningRate,
    loss_scale: metrics.lossScale,
    skipped: metrics.skipped,
    step_ms: metrics.stepMs,
    tokens_per_s: metrics.tokensPerSecond,
    model_tflops: metrics.modelTflops,
    peak_bytes: metrics.peakBytes,
  };
}

function moveAside(path: string): string {
  let number = 1;
  while (existsSync(`${path}.${number}`)) number += 1;
  renameFileSync(path, `${path}.${number}`);
  return `${path}.${number}`;
}

/** Rewrites the file with only the records of iterations up to `lastIteration`. */
async function dropLinesBeyond(path: string, lastIteration: number): Promise<FoundFile> {
  const temporary = `${path}.${process.pid}.tmp`;
  const descriptor = openSync(temporary, 'w');
  let droppedLines = 0;
  let size = 0;
  const written = new Map<string, number>();
  let lastValidation: FoundFile['lastValidation'];
  const evaluations: EvaluatedStep[] = [];
  let torn: number | undefined;
  try {
    let lineNumber = 0;
    for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
      lineNumber += 1;
      // a killed run can leave an incomplete last line; but if lines follow an invalid line, the file is not
      // a metrics file
      if (torn !== undefined) throw notOurs(path, torn);
      const record = parseRecord(line);
      if (record === undefined) torn = lineNumber;
      if (
        record === undefined ||
        record.iteration > lastIteration ||
        (isOncePerIteration(record.type) && record.iteration <= (written.get(record.type) ?? 0))
      ) {
        droppedLines += 1;
        continue;
      }
      const { type, iteration, loss } = record;
      written.set(type, iteration);
      if (type === 'validation' && loss !== undefined) evaluations.push({ iteration, loss });
      lastValidation = type === 'validation' ? { iteration, start: size } : undefined;
      size += writeSync(descriptor, `${line}\n`);
    }
    if (size === 0 && torn === 1) throw notOurs(path, torn);
    fsyncSync(descriptor);
    renameFileSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
  return { droppedLines, lastValidation, evaluations };
}

interface RecordKey {
  readonly type: string;
  readonly iteration: number;
  /** The loss; undefined if it is not finite. */
  readonly loss: number | undefined;
}

/** Returns true if an iteration has at most one record of the given type. */
const isOncePerIteration = (type: string): boolean => type === 'step' || type === 'validation';

/** Reads the type, iteration and loss of a record. Records of steps have no `type`. */
function parseRecord(line: string): RecordKey | undefined {
  try {
    const record = renamedLosses(JSON.parse(line) as Record<string, unknown>);
    const { type = 'step', iteration, lm_loss: loss } = record;
    if (typeof type !== 'string') return undefined;
    if (typeof iteration !== 'number' || !Number.isInteger(iteration)) return undefined;
    return { type, iteration, loss: typeof loss === 'number' ? loss : undefined };
  } catch {
    return undefined;
  }
}

function notOurs(path: string, lineNumber: number): ConfigurationError {
  return new ConfigurationError(
    'MTL_METRICS_FILE',
    `${path}, line ${lineNumber}, is not a record of metrics`,
    {
      expected: 'a file that a training run wrote: one JSON object with an iteration per line',
      remedy: `move ${path} away, or have the metrics written elsewhere`,
    },
  );
}
