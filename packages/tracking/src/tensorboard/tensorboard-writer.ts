import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { namingFile, UsageError } from '@mtl/errors';
import { renameFileSync } from '@mtl/errors/files';
import type { MetricsSink, StepMetrics, TrainingEvent, ValidationLoss } from '@mtl/trainer';
import { validationMetrics } from '@mtl/trainer/internal';
import { expertScalars } from '../expert-scalars.js';
import { encodeEventRecord, readEventRecords, type TensorboardEvent } from './event-records.js';

/** The beginning of the name that the first event of a file gives to its writer. */
const writerName = 'mtl.trainer.metrics.tensorboard_writer';
/** Megatron-LM's suffix for a curve over consumed samples. The curve over iterations has no suffix. */
const samplesSuffix = ' vs samples';

export interface TensorboardWriterOptions {
  /** The folder in which the files are written (--tensorboard-dir). It is created if it is missing. */
  readonly directory: string;
  /**
   * The progress from which training resumes. Points of later steps will be written again. Therefore they are
   * removed from the older files of this run, and a running TensorBoard is told to drop them
   * (`SessionLog.START`).
   */
  readonly resume?: ResumePoint | undefined;
  /**
   * A name that distinguishes this run's files from the files of other runs in the same folder, for example
   * the run folder. A resumed run must use the same name. Default: empty.
   */
  readonly run?: string | undefined;
  /** Returns the time in seconds since 1970. Default: the time of the system's clock. */
  readonly now?: () => number;
  /** The host in the file's name. Default: this machine's name. */
  readonly host?: string;
}

/**
 * Writes scalars as TensorBoard event files, with Megatron-LM's tag names, so that existing dashboards work.
 * Every start of a run adds its own file to the folder. TensorBoard joins the files into one curve. When a
 * call returns, its event is in the file.
 */
export class TensorboardWriter implements MetricsSink {
  /** The path of the file to which this writer appends. */
  readonly path: string;
  readonly #now: () => number;
  #descriptor: number | undefined;

  constructor(options: TensorboardWriterOptions) {
    const { directory, resume, run = '' } = options;
    const writer = `${writerName} ${run}`.trimEnd();
    this.#now = options.now ?? (() => Date.now() / 1000);
    mkdirSync(directory, { recursive: true });
    const older = resume === undefined ? undefined : olderFiles(directory, { resume, writer });
    [this.path, this.#descriptor] = openNewFile(directory, this.#now(), options.host ?? hostname());
    this.#append({ wallTime: this.#now(), step: 0, fileVersion: 'brain.Event:2', writer });
    if (resume === undefined || older === undefined) return;
    this.#append({ wallTime: this.#now(), step: resume.iteration + 1, isSessionStart: true }, ...older.moved);
    // events must be durable in the new file before they are removed from older files
    this.flush();
    for (const file of older.changed) rewriteFile(directory, file);
  }

  /** Writes one value. */
  scalar(tag: string, value: number, step: number): void {
    this.#append({ wallTime: this.#now(), step, scalars: [{ tag, value }] });
  }

  /** Writes the metrics of a training step, each to a curve over iterations and a curve over samples. */
  step(metrics: StepMetrics): void {
    const { decoupledLearningRate } = metrics;
    const scalars = [
      { tag: 'learning-rate', value: metrics.learningRate },
      ...(decoupledLearningRate === undefined
        ? []
        : [{ tag: 'decoupled-learning-rate', value: decoupledLearningRate }]),
      { tag: 'batch-size', value: metrics.globalBatchSize },
      { tag: 'lm loss', value: metrics.loss },
      ...Object.entries(metrics.otherLosses ?? {}).map(([name, value]) => ({
        tag: name.replaceAll('_', ' '),
        value,
      })),
      { tag: 'loss-scale', value: metrics.lossScale },
      { tag: 'grad-norm', value: metrics.gradNorm },
    ];
    const wallTime = this.#now();
    this.#append(
      {
        wallTime,
        step: metrics.iteration,
        scalars: [
          ...scalars,
          { tag: 'iteration-time', value: metrics.stepMs / 1000 },
          { tag: 'throughput', value: metrics.modelTflops },
          { tag: 'tokens-per-second', value: metrics.tokensPerSecond },
          { tag: 'mem-max-allocated-bytes', value: metrics.peakBytes },
        ],
      },
      { wallTime, step: metrics.consumedSamples, scalars: versusSamples(scalars) },
    );
  }

  /**
   * Writes the losses of an evaluation. For losses that are means over tokens, also writes the perplexity.
   */
  validation(result: ValidationLoss & { readonly consumedSamples: number }): void {
    const { iteration, consumedSamples } = result;
    const scalars = validationMetrics(result).flatMap(({ key, value, perplexity }) => {
      const tag = `${key.replaceAll('_', ' ')} validation`;
      return [
        { tag, value },
        ...(perplexity === undefined ? [] : [{ tag: `${tag} ppl`, value: perplexity }]),
      ];
    });
    const wallTime = this.#now();
    this.#append(
      { wallTime, step: iteration, scalars },
      { wallTime, step: consumedSamples, scalars: versusSamples(scalars) },
    );
  }

  /**
   * Writes the values that `expertScalars` returns for an event of type `experts`. Events of all other types
   * are ignored.
   */
  event({ type, iteration, fields }: TrainingEvent): void {
    if (type !== 'experts') return;
    const scalars = expertScalars(fields).map(({ name, value }) => ({ tag: name, value }));
    this.#append({ wallTime: this.#now(), step: iteration, scalars });
  }

  /** Makes all events so far durable. */
  flush(): void {
    if (this.#descriptor !== undefined) fsyncSync(this.#descriptor);
  }

  /** Makes all events durable and closes the file. Further calls do nothing. */
  close(): void {
    if (this.#descriptor === undefined) return;
    this.flush();
    closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #append(...events: readonly TensorboardEvent[]): void {
    if (this.#descriptor === undefined) {
      throw new UsageError('MTL_TENSORBOARD_CLOSED', `${this.path} is closed, no event can be written`);
    }
    const records = Buffer.concat(events.map((event) => encodeEventRecord(event)));
    const descriptor = this.#descriptor;
    namingFile(this.path, () => writeSync(descriptor, records));
  }
}

function versusSamples(
  scalars: NonNullable<TensorboardEvent['scalars']>,
): TensorboardEvent['scalars'] & object {
  return scalars.map(({ tag, value }) => ({ tag: `${tag}${samplesSuffix}`, value }));
}

/**
 * Opens a new file to which no other process writes. Its name begins with the time, because TensorBoard
 * orders the files of a run by name.
 */
function openNewFile(directory: string, now: number, host: string): [path: string, descriptor: number] {
  for (let number = 0; ; number++) {
    const seconds = String(Math.floor(now)).padStart(10, '0');
    const path = join(directory, `events.out.tfevents.${seconds}.${host}.${process.pid}.${number}`);
    try {
      return [path, openSync(path, 'ax')];
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** The progress of the checkpoint from which training resumes. */
interface ResumePoint {
  readonly iteration: number;
  readonly consumedSamples: number;
}

/** A file that a resume rewrites, with the encoded events that remain in it. */
interface ChangedFile {
  readonly name: string;
  readonly kept: Buffer;
}

/** The changes that a resume makes to the files that the run wrote before. */
interface OlderFiles {
  readonly changed: readonly ChangedFile[];
  /**
   * Points over samples that must be written again after the start of the new session. At this start,
   * TensorBoard drops all points with a later step. The step of a point over samples is a number of samples,
   * which is larger than the iteration in which it was written, so TensorBoard also drops points that are
   * still valid.
   */
  readonly moved: readonly TensorboardEvent[];
}

interface OlderFilesOptions {
  readonly resume: ResumePoint;
  /**
   * The writer named in the first event of this run's files. Only files with this writer are ever changed.
   */
  readonly writer: string;
}

/** Finds the event files that a run wrote before it was resumed, and the events to keep in them. */
function olderFiles(directory: string, { resume, writer }: OlderFilesOptions): OlderFiles {
  const changed: ChangedFile[] = [];
  // keyed by step, because a resume that was killed may have left a point in two files
  const moved = new Map<string, TensorboardEvent>();
  for (const name of readdirSync(directory).sort()) {
    if (!name.startsWith('events.out.tfevents.')) continue;
    const file = readFileSync(join(directory, name));
    const kept = selectKept(file, {
      resume,
      writer,
      move: (event) => void moved.set(formatKey(event), event),
    });
    if (kept !== undefined && kept.length !== file.length) changed.push({ name, kept });
  }
  return { changed, moved: [...moved.values()].sort((one, other) => one.step - other.step) };
}

const formatKey = ({ step, scalars = [] }: TensorboardEvent): string => `${step} ${scalars[0]?.tag}`;

/** Returns the encoded events to keep in `file`; undefined if the file belongs to a different run. */
function selectKept(
  file: Buffer,
  options: OlderFilesOptions & { readonly move: (event: TensorboardEvent) => void },
): Buffer | undefined {
  const { resume, writer, move } = options;
  const kept: Buffer[] = [];
  let start = 0;
  for (const { event, end } of readEventRecords(file)) {
    if (start === 0 && event.writer !== writer) return undefined;
    const isOverSamples = event.scalars?.[0]?.tag.endsWith(samplesSuffix) ?? false;
    if (event.step <= resume.iteration) kept.push(file.subarray(start, end));
    else if (isOverSamples && event.step <= resume.consumedSamples) move(event);
    start = end;
  }
  return start === 0 ? undefined : Buffer.concat(kept);
}

/** Replaces a file atomically, by a rename, with a file that contains only its kept events. */
function rewriteFile(directory: string, { name, kept }: ChangedFile): void {
  // the name does not contain "tfevents", so that TensorBoard does not read the temporary file
  const temporary = join(directory, `.cut.${process.pid}.tmp`);
  try {
    writeFileSync(temporary, kept, { flush: true });
    renameFileSync(temporary, join(directory, name));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
