import type { HostInformation } from '@mtl/kernels';
import type { RunStart } from '@mtl/run-records';

/**
 * Returns a message if a run on the CPU goes on with a different instruction set, whose sums are rounded
 * differently.
 */
export function notesOfInstructionSet(
  { device, instructionSet: before }: Pick<RunStart, 'device' | 'instructionSet'>,
  { instructionSet: now }: Pick<HostInformation, 'instructionSet'>,
): readonly string[] {
  if (device !== 'cpu' || before === now) return [];
  return [
    `  note: the checkpoint was trained with instruction set ${before}, and training goes on with ${now}: results differ by rounding`,
  ];
}
