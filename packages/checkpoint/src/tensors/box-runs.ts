import { type LogicalTensor, type Slice, shapeOfSlices, wholeSlices } from '@mtl/layout';
import { dtypeBytes } from './dtype.js';
import { bytesOfSlices } from './logical-tensor.js';

/**
 * A plan to copy between two row-major boxes. It consists of runs of equal length. Each run is contiguous in
 * both boxes. Source offsets increase with the run's index.
 */
export interface RunPlan {
  readonly runs: number;
  readonly runBytes: number;
  /** Returns the byte offset in the source box at which run `run` starts. */
  sourceOffset(run: number): number;
  /** Returns the byte offset in the target box at which run `run` starts. */
  targetOffset(run: number): number;
}

/** Returns the byte strides of a row-major array. */
function computeStrides(shape: readonly number[], elementBytes: number): number[] {
  const strides = new Array<number>(shape.length);
  let stride = elementBytes;
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    strides[dim] = stride;
    stride *= shape[dim]!;
  }
  return strides;
}

/**
 * Plans the copy of `common`, a non-empty box inside both, from box `source` to box `target`. All three are
 * in the coordinates of the global tensor.
 */
export function planRuns(options: {
  readonly source: readonly Slice[];
  readonly target: readonly Slice[];
  readonly common: readonly Slice[];
  readonly elementBytes: number;
}): RunPlan {
  const { source, target, common, elementBytes } = options;
  const extents = shapeOfSlices(common);
  const sourceShape = shapeOfSlices(source);
  const targetShape = shapeOfSlices(target);
  const sourceStrides = computeStrides(sourceShape, elementBytes);
  const targetStrides = computeStrides(targetShape, elementBytes);
  // the dimensions from `outer` on form a run, because every dimension after `outer` is complete in both
  // boxes
  let outer = Math.max(extents.length - 1, 0);
  let runBytes = (extents[outer] ?? 1) * elementBytes;
  while (outer > 0 && extents[outer] === sourceShape[outer] && extents[outer] === targetShape[outer]) {
    outer--;
    runBytes *= extents[outer]!;
  }
  const computeBase = (box: readonly Slice[], strides: readonly number[]): number =>
    common.reduce((sum, { start }, dim) => sum + (start - box[dim]!.start) * strides[dim]!, 0);
  const sourceBase = computeBase(source, sourceStrides);
  const targetBase = computeBase(target, targetStrides);
  let runs = 1;
  for (let dim = 0; dim < outer; dim++) runs *= extents[dim]!;
  const computeOffset = (run: number, base: number, strides: readonly number[]): number => {
    let offset = base;
    let rest = run;
    for (let dim = outer - 1; dim >= 0; dim--) {
      const extent = extents[dim]!;
      offset += (rest % extent) * strides[dim]!;
      rest = Math.floor(rest / extent);
    }
    return offset;
  };
  return {
    runs,
    runBytes,
    sourceOffset: (run) => computeOffset(run, sourceBase, sourceStrides),
    targetOffset: (run) => computeOffset(run, targetBase, targetStrides),
  };
}

/** Plans the copy of the box `slices` from a complete tensor. Lengths and offsets are in elements. */
export const runsOfBox = ({ globalShape, slices }: Pick<LogicalTensor, 'globalShape' | 'slices'>): RunPlan =>
  planRuns({ source: wholeSlices(globalShape), target: slices, common: slices, elementBytes: 1 });

/**
 * Copies the box `slices` from a complete tensor, as row-major bytes.
 *
 * @param options.source the row-major bytes of the complete tensor
 * @param options.target memory with exactly the size of the box. Default: newly allocated memory
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
