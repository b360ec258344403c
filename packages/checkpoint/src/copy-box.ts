import { wholeSlices } from './boxes.js';
import { dtypeBytes } from './dtype.js';
import { bytesOfSlices, type LogicalTensor } from './logical-tensor.js';
import { planRuns } from './run-plan.js';

/**
 * Copies the box `slices` out of a whole tensor, as row-major bytes.
 *
 * @param options.source the row-major bytes of the whole tensor
 * @param options.target memory of exactly the bytes of the box. Default: allocated
 * @returns `target`
 */
export function copyBox(
  options: Pick<LogicalTensor, 'dtype' | 'globalShape' | 'slices'> & {
    readonly source: Uint8Array;
    readonly target?: Uint8Array;
  },
): Uint8Array {
  const { source, dtype, globalShape, slices } = options;
  const { target = new Uint8Array(bytesOfSlices(dtype, slices)) } = options;
  if (target.length === 0) return target;
  const plan = planRuns({
    source: wholeSlices(globalShape),
    target: slices,
    common: slices,
    elementBytes: dtypeBytes[dtype],
  });
  for (let run = 0; run < plan.runs; run++) {
    const start = plan.sourceOffset(run);
    target.set(source.subarray(start, start + plan.runBytes), plan.targetOffset(run));
  }
  return target;
}
