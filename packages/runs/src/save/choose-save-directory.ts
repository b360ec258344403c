import { join } from 'node:path';
import type { Flags } from '@mtl/configuration';

export interface ChooseSaveDirectoryOptions {
  readonly flags: Pick<Flags, 'save' | 'load' | 'finetune' | 'ckpt-step'>;
  readonly preset: string;
  /** Of the launcher at a restart too, so that the job finds what it saved. */
  readonly startedAt: Date;
  /** The process that started the job: tells apart runs that start in the same second. */
  readonly processId: number;
}

/**
 * Where a run saves: --save; without it the directory of --load, whose training run it continues; or a new
 * one, runs/PRESET-DATE-TIME-PROCESS. With --finetune or --ckpt-step a run does not continue at the newest
 * checkpoint of the directory of --load, and its own would take that one's place.
 */
export function chooseSaveDirectory(options: ChooseSaveDirectoryOptions): string {
  const { flags, preset, startedAt, processId } = options;
  if (flags.save !== undefined) return flags.save;
  const continues = flags.finetune !== true && flags['ckpt-step'] === undefined;
  if (flags.load !== undefined && continues) return flags.load;
  const time = startedAt.toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '');
  return join('runs', `${preset}-${time}-${processId}`);
}
