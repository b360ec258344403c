import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, renameSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PretrainingConfiguration, RecordedMatmuls } from '@mtl/configuration';
import { recordedSizes } from '@mtl/configuration/internal';
import { ConfigurationError, formatError, MtlError } from '@mtl/errors';
import { hostInformation } from '@mtl/kernels';
import { type RunRecord, type RunStart, runRecordPath } from '@mtl/run-records';
import { comparedFlags, readRunRecord, trackedRun, writeRunRecord } from '@mtl/run-records/internal';
import type { TrackedRun } from '@mtl/tracking';
import { contentsOfFlags, type FileContents } from '../data-changes/contents-of-flags.js';
import { libraryVersion } from '../library-version.js';
import { once } from '../once.js';
import type { ModelSample } from '../parts/samples/sample-continuation.js';
import type { ThreadChoice } from '../parts/threads/threads-of-run.js';

/** The part of a configuration that the record keeps. */
interface RecordedConfiguration extends Pick<PretrainingConfiguration, 'kind' | 'preset' | 'parallel'> {
  readonly flags: Readonly<Record<string, unknown>>;
  /** Flags with the values in force. Default: `flags`. */
  readonly resolved?: Readonly<Record<string, unknown>>;
  readonly training: Pick<PretrainingConfiguration['training'], 'trainIterations'>;
  /** Task of a fine-tuning run. */
  readonly task?: string;
}

export interface StartRunOptions {
  /** The run folder: the directory of --save; undefined for a run without a folder. */
  readonly directory: string | undefined;
  readonly configuration: RecordedConfiguration;
  /** Reads checksums of the training data; called if the run has a folder. */
  readonly datasets: () => RunStart['datasets'];
  /**
   * Reads checksums of the files that flags name; called if the run has a folder. Default: `contentsOfFlags`.
   */
  readonly contents?: () => FileContents;
  readonly threads: ThreadChoice;
  /** The algorithms that were chosen for matmuls. Default: none. */
  readonly matmuls?: RecordedMatmuls | undefined;
  /** The iteration that training continues from. */
  readonly iteration: number;
  readonly onMessage: (text: string) => void;
}

/** The end of a start of a run. */
type RunEnd = Omit<NonNullable<RunStart['end']>, 'time'>;

/** Keeps run.json: only rank 0 has one. */
export class RunLog {
  readonly #directory: string;
  readonly #record: RunRecord;

  private constructor(directory: string, record: RunRecord) {
    this.#directory = directory;
    this.#record = record;
  }

  /**
   * Adds this start to the record of the run, and creates the record if missing. Returns undefined for a run
   * without a folder.
   *
   * @throws ConfigurationError MTL_RUN_RECORD if it cannot be written
   */
  static start(options: StartRunOptions): RunLog | undefined {
    const { directory, onMessage } = options;
    if (directory === undefined) return undefined;
    mkdirSync(directory, { recursive: true });
    const starts = [...earlierStarts(directory, onMessage), describeStart(options)];
    const log = new RunLog(directory, { format: 'mtl-run', version: 1, starts });
    writeRunRecord(directory, log.#record);
    return log;
  }

  /** Returns the information about the run for tracking services. */
  get tracked(): TrackedRun {
    return trackedRun(this.#record);
  }

  /**
   * Adds the end of this start. If another run has taken over the folder meanwhile, its record stays
   * unchanged.
   *
   * @throws ConfigurationError MTL_RUN_RECORD
   */
  end(end: RunEnd): void {
    const own = this.#record.starts.at(-1)!;
    own.end = { time: new Date().toISOString(), ...end };
    mkdirSync(this.#directory, { recursive: true });
    const record = readRunRecord(this.#directory) ?? this.#record;
    const index = record.starts.findIndex(
      ({ time, pid, host }) => time === own.time && pid === own.pid && host === own.host,
    );
    if (index < 0) return;
    record.starts[index] = own;
    writeRunRecord(this.#directory, record);
  }

  /**
   * Adds a sample of the model to samples.jsonl in the run folder: a line of JSON with time, iteration, text
   * and label; for a GPT also prompt and completion.
   *
   * @throws ConfigurationError MTL_RUN_RECORD if it cannot be written
   */
  sample({ iteration, ...sample }: ModelSample & { readonly iteration: number }): void {
    const path = join(this.#directory, 'samples.jsonl');
    try {
      appendFileSync(path, `${JSON.stringify({ time: new Date().toISOString(), iteration, ...sample })}\n`);
    } catch (cause) {
      throw new ConfigurationError('MTL_RUN_RECORD', `${path}: ${(cause as Error).message}`, {
        expected: 'a file that can be written',
        remedy: 'free space on that disk: everything else of the run is saved',
        exitCode: 1,
        cause,
      });
    }
  }

  /** Does as `end` for an error; an error of writing the record must not hide the original error. */
  fail(error: unknown, { iteration }: { readonly iteration: number }): void {
    const isCoded = MtlError.isInstance(error);
    const what = isCoded ? `${error.code}: ${error.message}` : formatError(error);
    const remedy = isCoded ? error.remedy : undefined;
    try {
      this.end({
        reason: 'failed',
        iteration,
        error: what,
        ...(remedy === undefined ? {} : { remedy }),
      });
    } catch {
      // a start without an end counts as failed
    }
  }
}

/** Returns the starts in the folder; a record that cannot be read is moved aside. */
function earlierStarts(directory: string, onMessage: (text: string) => void): RunRecord['starts'] {
  try {
    return readRunRecord(directory)?.starts ?? [];
  } catch (error) {
    const path = runRecordPath(directory);
    let number = 1;
    while (existsSync(`${path}.${number}`)) number += 1;
    renameSync(path, `${path}.${number}`);
    onMessage(`  note: ${(error as Error).message}; moved to ${path}.${number}`);
    return [];
  }
}

function describeStart(options: StartRunOptions): RunStart {
  const { configuration, datasets, threads, matmuls, iteration } = options;
  const { parallel, training, kind, preset, flags, resolved = flags, task } = configuration;
  const { contents = () => contentsOfFlags(resolved) } = options;
  const { instructionSet, onednnVersion } = hostInformation();
  return {
    time: new Date().toISOString(),
    host: hostname(),
    pid: process.pid,
    command: [...process.argv],
    workingDirectory: process.cwd(),
    model: kind,
    preset,
    ...(task === undefined ? {} : { task }),
    flags: { ...flags },
    resolved: comparedFlags(resolved),
    ...contents(),
    iteration,
    trainIterations: training.trainIterations,
    commit: commitOfProcess(),
    versions: { mtl: libraryVersion, node: process.versions.node, onednn: onednnVersion },
    instructionSet,
    device: parallel.device,
    threads,
    ...(matmuls === undefined ? {} : { matmuls }),
    layout: {
      worldSize: parallel.worldSize,
      ...recordedSizes(parallel),
    },
    datasets: datasets(),
  };
}

/**
 * Returns the commit of this code, found at the first start: later starts in the process run the same code.
 */
const commitOfProcess = once(() => checkoutCommit(dirname(fileURLToPath(import.meta.url))));

/**
 * Returns the commit of the git checkout that holds a directory, with `-dirty` where tracked files were
 * changed; null outside a checkout and where git is not installed.
 */
function checkoutCommit(directory: string): string | null {
  const argv = ['-C', directory, 'describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'];
  try {
    const stdio = ['ignore', 'pipe', 'ignore'] as const;
    return execFileSync('git', argv, { encoding: 'utf8', timeout: 5000, stdio: [...stdio] }).trim() || null;
  } catch {
    return null;
  }
}
