import type { TrackedRun } from '@mtl/tracking';
import type { RunRecord } from './run-record.js';

/** What tracking services are told about the run of a record. */
export function trackedRun({ starts }: RunRecord): TrackedRun {
  const { flags, host } = starts.at(-1)!;
  return { flags, host, startedAt: Date.parse(starts[0]!.time) };
}
