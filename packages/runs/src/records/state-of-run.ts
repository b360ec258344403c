import type { RunRecord } from './run-record.js';

/**
 * `running`: a process owns the folder. `finished`: the last iteration was reached, or the
 * validation loss had stopped falling. `stopped`: it ended in
 * order before that and can be resumed. `failed`: an error or a signal that cannot be caught ended it.
 * `unknown`: it has no record.
 */
export type RunState = 'running' | 'finished' | 'stopped' | 'failed' | 'unknown';

/** The state that the record of a run tells, where no process owns its folder. */
export function stateOfRun(record: RunRecord | undefined): Exclude<RunState, 'running'> {
  if (record === undefined) return 'unknown';
  const reason = record.starts.at(-1)!.end?.reason;
  if (reason === 'done' || reason === 'early-stopping') return 'finished';
  return reason === undefined || reason === 'failed' ? 'failed' : 'stopped';
}
