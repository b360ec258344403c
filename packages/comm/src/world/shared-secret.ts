import { setTimeout as pause } from 'node:timers/promises';
import type { ProcessEnvironment, Variables } from '../environment/process-environment.js';
import type { SharedSecretFile } from '../environment/shared-secret-file.js';
import { rankZeroNeverCame } from './rank-zero-never-came.js';
import { waitNoticesMs } from './wait-notices.js';

const lookMs = 50;

/**
 * Returns whether a job needs no secret of its user's: its processes are on one host, where a file can hold
 * one, and RANK and WORLD_SIZE started them (torchrun, a script).
 */
export function sharesSecretFile(
  { launcher, worldSize, localWorldSize }: ProcessEnvironment,
  { MTL_JOB_SECRET: secret, MTL_JOB_SECRET_FILE: file }: Variables,
): boolean {
  const isKnown = Boolean(secret) || Boolean(file);
  return !isKnown && worldSize === localWorldSize && ['torchrun', 'variables'].includes(launcher);
}

/** The secret that rank 0 makes and the others wait for. @throws CommunicationError `MTL_TIMEOUT` */
export async function sharedSecret(options: {
  readonly file: SharedSecretFile;
  readonly environment: ProcessEnvironment;
  readonly timeoutMs: number;
  readonly onWait: (text: string) => void;
}): Promise<string> {
  const { file, environment, timeoutMs, onWait } = options;
  const { rank } = environment;
  if (rank === 0) return file.create();
  const started = performance.now();
  let noticeAtMs: number = waitNoticesMs.first;
  for (;;) {
    const secret = file.find();
    if (secret !== undefined) return secret;
    const waitedMs = performance.now() - started;
    if (waitedMs >= timeoutMs) {
      throw rankZeroNeverCame({
        rank,
        waitedMs,
        detail: ` for its file ${file.path}`,
        alike: 'MASTER_ADDR, MASTER_PORT and WORLD_SIZE',
      });
    }
    if (waitedMs >= noticeAtMs) {
      onWait(
        `rank ${rank} has waited ${(waitedMs / 1000).toFixed(0)} s for rank 0, which holds the store of the job`,
      );
      noticeAtMs += waitNoticesMs.next;
    }
    await pause(lookMs);
  }
}
