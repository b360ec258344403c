import type { RunOutcome, TrainingResult } from '@mtl/trainer';

/** What tracking services are told of how a run ended. */
export function outcomeOf(reason: TrainingResult['reason']): RunOutcome {
  return reason === 'done' || reason === 'early-stopping' ? 'finished' : 'stopped';
}
