import type { CollectiveOperation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { collectiveSeconds } from '../timing/collective-seconds.js';

/** The message of a micro-batch between stages. */
export interface RecordedMessage {
  /** That one rank sends. */
  readonly bytes: number;
  /** With which the receivers put their parts together. */
  readonly gather?: CollectiveOperation | undefined;
  /** Whether it stays within a node. */
  readonly isInside: boolean;
}

/** Time of the message alone; 0 without a pipeline. */
export function recordedMessageSeconds(message: RecordedMessage | undefined, profile: Profile): number {
  if (message === undefined) return 0;
  const { bytes, isInside } = message;
  const group = { axis: 'pipeline', size: 2, perNode: isInside ? 2 : 1 } as const;
  return collectiveSeconds({ collective: 'message', bytes, group }, profile);
}
