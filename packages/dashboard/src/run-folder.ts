import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { OwnedDirectory } from '@mtl/checkpoint';
import { MtlError } from '@mtl/errors';
import {
  comparableRun,
  lastMetricsIn,
  listConditions,
  listStartFlags,
  metricsPath,
  parseRunRecord,
  type RunRecord,
  risingValidation,
  runRecordPath,
  stateOfRun,
} from '@mtl/run-records';
import type { Axis, CheckpointOfRun, MarkOfRun, RunDetails, RunSummary, SampleOfRun } from './api-types.js';
import { marksOfRun } from './marks-of-run.js';
import { readTraceOfRun } from './read-trace-of-run.js';
import { textOfError } from './respond.js';
import { AppendedLines, openRunFile, readRunFile } from './run-files.js';
import { RunIndex } from './run-index.js';

const mostRecordBytes = 64 << 20;
const mostSamples = 50;
const checkpointPattern = /^iter_(\d{7,15})$/;

/** The last metrics of a run. They can be read without reading the run's curves. */
interface LastFigures {
  readonly iteration: number;
  readonly loss: number | null;
  readonly validationLoss: number | null;
  readonly tokensPerSecond: number | null;
  readonly stepMs: number | null;
}

/**
 * A run folder, from which this class only reads. A refresh reads what has changed since the last refresh.
 */
export class RunFolder {
  readonly #path: string;
  readonly #id: string;
  readonly #index: RunIndex;
  readonly #sampleLines: AppendedLines;
  readonly #samples: SampleOfRun[] = [];
  #isIndexed = false;
  #stamp = '';
  #recordStamp = '';
  #record: RunRecord | undefined;
  #problem: string | undefined;
  #summary: RunSummary | undefined;

  /** `id`: the name of the run's folder. */
  constructor(path: string, id: string) {
    this.#path = path;
    this.#id = id;
    this.#index = new RunIndex(metricsPath(path));
    this.#sampleLines = new AppendedLines(join(path, 'samples.jsonl'));
  }

  /** The summary of the run at the last `refresh`. */
  get summary(): RunSummary {
    return this.#summary!;
  }

  /** Reads changes in the folder; returns true if there were any. */
  async refresh(): Promise<boolean> {
    const isOwned = await OwnedDirectory.isOwned(this.#path).catch(() => false);
    const recordStamp = await readStamp(runRecordPath(this.#path));
    const files = ['metrics.jsonl', 'samples.jsonl', 'trace.json', '.'];
    const stamps = await Promise.all(files.map((file) => readStamp(join(this.#path, file))));
    const stamp = [isOwned, recordStamp, ...stamps].join(' ');
    if (stamp === this.#stamp) return false;
    if (recordStamp !== this.#recordStamp) await this.#readRecord();
    this.#recordStamp = recordStamp;
    // a running run has an index of its metrics, which is updated with every step; for other runs, the list
    // needs only the end of the metrics file
    const figures = this.#isIndexed || isOwned ? await this.#figuresOfIndex() : await this.#figuresOfEnd();
    this.#summary = this.#summarise(figures, isOwned);
    this.#stamp = stamp;
    return true;
  }

  /** Reads new metrics, and returns the index of all metrics of the run. */
  async index(): Promise<RunIndex> {
    this.#isIndexed = true;
    await this.#index.update();
    return this.#index;
  }

  async details(): Promise<RunDetails> {
    const index = await this.index();
    await this.#readSamples();
    const last = this.#record?.starts.at(-1);
    return {
      id: this.#id,
      directory: this.#path,
      revision: this.summary.revision,
      flags: last?.flags ?? {},
      conditions: last === undefined ? {} : listConditions(last),
      comparable: this.#record === undefined ? null : comparableRun(this.#record),
      command: last?.command.join(' ') ?? null,
      flagsOfStart: last === undefined ? [] : listStartFlags(last),
      starts: (this.#record?.starts ?? []).map(({ time, host, pid, iteration, end }) => ({
        time,
        host,
        pid,
        iteration,
        end: end === undefined ? null : { ...end, error: end.error ?? null, remedy: end.remedy ?? null },
      })),
      checkpoints: await this.#checkpoints(),
      best: findBest(index),
      samples: this.#samples.toReversed(),
      events: index.events,
      ranks: index.ranks,
      experts: index.experts,
      traceRevision: (await readStamp(join(this.#path, 'trace.json'))) || null,
      series: index.names,
      notes: listNotes(index),
      problems: this.#problem === undefined ? [] : [this.#problem],
    };
  }

  /** Returns the marks for the run's curves. */
  async marks(axis: Axis): Promise<readonly MarkOfRun[]> {
    const index = await this.index();
    const { state } = this.summary;
    const entries = await readdir(this.#path, { withFileTypes: true }).catch(() => []);
    const checkpoints = entries
      .flatMap((entry) => (entry.isDirectory() ? (checkpointPattern.exec(entry.name)?.slice(1) ?? []) : []))
      .map(Number)
      .sort((a, b) => a - b);
    return marksOfRun({ index, axis, starts: this.#record?.starts ?? [], state, checkpoints });
  }

  /** Reads the profiled steps in trace.json (see `readTraceOfRun`); undefined without such a file. */
  async trace(): Promise<ReturnType<typeof readTraceOfRun> | undefined> {
    const text = await readRunFile(join(this.#path, 'trace.json'), { mostBytes: mostRecordBytes });
    return text === undefined ? undefined : readTraceOfRun(text);
  }

  async #readRecord(): Promise<void> {
    this.#record = undefined;
    this.#problem = undefined;
    const path = runRecordPath(this.#path);
    const text = await readRunFile(path, { mostBytes: mostRecordBytes });
    if (text === undefined) return;
    try {
      this.#record = parseRunRecord(text, { path });
    } catch (error) {
      if (!MtlError.isInstance(error)) throw error;
      this.#problem = textOfError(error);
    }
  }

  async #figuresOfIndex(): Promise<LastFigures> {
    const { steps, validations } = await this.index();
    return {
      iteration: steps.iterations.at(-1) ?? 0,
      loss: steps.last('lm_loss') ?? null,
      validationLoss: validations.last('lm_loss') ?? null,
      tokensPerSecond: steps.last('tokens_per_s') ?? null,
      stepMs: steps.last('step_ms') ?? null,
    };
  }

  async #figuresOfEnd(): Promise<LastFigures> {
    const file = await openRunFile(metricsPath(this.#path));
    try {
      const { step, validation } = file === undefined ? {} : lastMetricsIn(file.fd);
      return {
        iteration: step?.iteration ?? 0,
        loss: step?.lm_loss ?? null,
        validationLoss: validation?.lm_loss ?? null,
        tokensPerSecond: numberOr(step?.tokens_per_s),
        stepMs: numberOr(step?.step_ms),
      };
    } finally {
      await file?.close();
    }
  }

  #summarise(figures: LastFigures, isOwned: boolean): RunSummary {
    const starts = this.#record?.starts ?? [];
    const last = starts.at(-1);
    return {
      id: this.#id,
      state: isOwned ? 'running' : stateOfRun(this.#record),
      model: last?.model ?? null,
      worldSize: last?.layout.worldSize ?? null,
      trainIterations: last?.trainIterations ?? null,
      startedAt: starts[0]?.time ?? null,
      numStarts: starts.length,
      error: last?.end?.error ?? this.#problem ?? null,
      revision: (this.#summary?.revision ?? 0) + 1,
      ...figures,
    };
  }

  async #readSamples(): Promise<void> {
    await this.#sampleLines.read({
      restart: () => void this.#samples.splice(0),
      line: (text) => {
        const sample = sampleIn(text);
        if (sample === undefined) return;
        // removes samples of steps that a resumed run repeats
        while ((this.#samples.at(-1)?.iteration ?? -1) >= sample.iteration) this.#samples.pop();
        this.#samples.push(sample);
        if (this.#samples.length > mostSamples) this.#samples.shift();
      },
    });
  }

  async #checkpoints(): Promise<CheckpointOfRun[]> {
    const names = (await readdir(this.#path).catch(() => [])).filter((name) => checkpointPattern.test(name));
    const found = await Promise.all(names.map((name) => this.#checkpoint(name)));
    return found.filter((one) => one !== undefined).sort((a, b) => a.iteration - b.iteration);
  }

  /** Returns a checkpoint; undefined for a link, or if the checkpoint was deleted in the meantime. */
  async #checkpoint(name: string): Promise<CheckpointOfRun | undefined> {
    const path = join(this.#path, name);
    try {
      const status = await lstat(path);
      if (!status.isDirectory()) return undefined;
      const files = await Promise.all((await readdir(path)).map((file) => lstat(join(path, file))));
      return {
        iteration: Number(checkpointPattern.exec(name)![1]),
        time: status.mtime.toISOString(),
        bytes: files.reduce((sum, { size }) => sum + size, 0),
      };
    } catch {
      return undefined;
    }
  }
}

function findBest({ validations }: RunIndex): RunDetails['best'] {
  const losses = validations.column('lm_loss')?.map((loss) => (Number.isFinite(loss) ? loss : Infinity));
  const loss = losses === undefined ? Infinity : Math.min(...losses);
  return Number.isFinite(loss) ? { iteration: validations.iterations[losses!.indexOf(loss)]!, loss } : null;
}

function listNotes({ validations }: RunIndex): readonly string[] {
  const losses = validations.column('lm_loss');
  if (losses === undefined) return [];
  const evaluations = Array.from(losses, (loss, at) => ({ iteration: validations.iterations[at]!, loss }));
  const rising = risingValidation(evaluations);
  return rising === undefined ? [] : [rising];
}

const numberOr = (value: unknown): number | null => (typeof value === 'number' ? value : null);

function sampleIn(line: string): SampleOfRun | undefined {
  try {
    const record = JSON.parse(line) as Record<string, unknown>;
    const { iteration, text } = record;
    if (typeof iteration !== 'number' || typeof text !== 'string') return undefined;
    const readText = (name: string): string | null => {
      const value = record[name];
      return typeof value === 'string' ? value : null;
    };
    const [label, prompt, completion] = [readText('label'), readText('prompt'), readText('completion')];
    return { time: readText('time'), iteration, text, label, prompt, completion };
  } catch {
    return undefined;
  }
}

/** Returns a string that changes whenever the file changes; empty if the file does not exist. */
async function readStamp(path: string): Promise<string> {
  try {
    const { size, mtimeMs, ino } = await lstat(path);
    return `${size}:${mtimeMs}:${ino}`;
  } catch {
    return '';
  }
}
