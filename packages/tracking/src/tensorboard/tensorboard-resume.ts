import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readEventRecords, type TensorboardEvent } from './event-records.js';

/** Begins the name of the writer in the first event of a file. */
export const writerName = 'mtl.trainer.metrics.tensorboard_writer';
/** Megatron-LM's suffix for the curve over consumed samples, next to the one over iterations. */
export const samplesSuffix = ' vs samples';

/** The progress of the checkpoint that training resumes from. */
export interface ResumePoint {
  readonly iteration: number;
  readonly consumedSamples: number;
}

/** A file that a resume changes, with what stays in it. */
export interface ChangedFile {
  readonly name: string;
  readonly kept: Buffer;
}

/** The changes that a resume makes to the files of an earlier run. */
export interface OlderFiles {
  readonly changed: readonly ChangedFile[];
  /**
   * Points over samples that are to be written again after the start of the new session. TensorBoard drops by
   * that start all points of a later step, and these count samples: their step is larger than that of the
   * iteration they were written at.
   */
  readonly moved: readonly TensorboardEvent[];
}

export interface OlderFilesOptions {
  readonly resume: ResumePoint;
  /** In the first event of the files of this run: only files that carry it are ever changed. */
  readonly writer: string;
}

/** Finds the event files of a run before it was resumed, and what the resume leaves of them. */
export function olderFiles(directory: string, { resume, writer }: OlderFilesOptions): OlderFiles {
  const changed: ChangedFile[] = [];
  // by step: a resume that was killed may have left a point in two files
  const moved = new Map<string, TensorboardEvent>();
  for (const name of readdirSync(directory).sort()) {
    if (!name.startsWith('events.out.tfevents.')) continue;
    const file = readFileSync(join(directory, name));
    const kept = keptOf(file, { resume, writer, move: (event) => void moved.set(keyOf(event), event) });
    if (kept !== undefined && kept.length !== file.length) changed.push({ name, kept });
  }
  return { changed, moved: [...moved.values()].sort((one, other) => one.step - other.step) };
}

const keyOf = ({ step, scalars = [] }: TensorboardEvent): string => `${step} ${scalars[0]?.tag}`;

/** Returns what stays in a file, or undefined for one that is not of this run. */
function keptOf(
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

/** Replaces a file by what stays of it, in one rename. */
export function rewriteFile(directory: string, { name, kept }: ChangedFile): void {
  // No "tfevents" in this name: TensorBoard must not take it for a file of the run.
  const temporary = join(directory, `.cut.${process.pid}.tmp`);
  try {
    writeFileSync(temporary, kept, { flush: true });
    renameSync(temporary, join(directory, name));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
