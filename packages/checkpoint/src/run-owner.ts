import { newSaveOwner, parseSaveOwner, type SaveOwner } from './save-owner.js';

/** The process that owns a directory of checkpoints for the whole life of its run. */
export interface RunOwner extends SaveOwner {
  /** The launcher's name of the job, the same at every restart; otherwise made for this run. */
  readonly job: string;
  /** How often the launcher had restarted the job. */
  readonly restartCount: number;
  /** ISO 8601. */
  readonly startedAt: string;
}

/** This process, about to own a directory. */
export function newRunOwner(options: {
  readonly job: string | undefined;
  readonly restartCount: number;
}): RunOwner {
  const owner = newSaveOwner({ job: options.job });
  const { job = owner.token } = options;
  return { ...owner, job, restartCount: options.restartCount, startedAt: new Date().toISOString() };
}

/** The owner in the text of a record, or undefined when the record is incomplete. */
export function parseRunOwner(text: string): RunOwner | undefined {
  const owner = parseSaveOwner(text) as RunOwner | undefined;
  if (owner === undefined) return undefined;
  const strings = [owner.job, owner.startedAt];
  const isWhole = strings.every((value) => typeof value === 'string') && Number.isInteger(owner.restartCount);
  return isWhole ? owner : undefined;
}
