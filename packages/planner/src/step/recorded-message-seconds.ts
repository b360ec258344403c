import type { CollectiveOperation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { measuredSeconds } from '../timing/collective-seconds.js';
import { linkOf } from '../timing/link-of.js';

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
export function recordedMessageSeconds(
  message: RecordedMessage | undefined,
  { hardware }: Pick<Profile, 'hardware'>,
): number {
  if (message === undefined) return 0;
  const { bytes, isInside } = message;
  const measured = isInside
    ? measuredSeconds({ collective: 'message', bytes, group: { size: 2 } }, hardware)
    : undefined;
  if (measured !== undefined) return measured;
  const link = linkOf(hardware, isInside);
  return link.latencySeconds.value + bytes / (link.bytesPerSecond.value * link.efficiency.value);
}
