import { UsageError } from '@mtl/errors';
import { sizeOf, type Tensor } from '@mtl/kernels';
import type { AllToAllOptions, ProcessGroup, ReduceOperation } from './process-group.js';

type Members = Pick<ProcessGroup, 'size' | 'rank'>;

/** How values can be combined, in the order of their native numbers (native/core/operation.h). */
export const reductions: readonly ReduceOperation[] = ['sum', 'max', 'min'];

/** @throws UsageError MTL_ARGUMENT unless there is a way to combine values that is called `operation` */
export function checkReduction(operation: ReduceOperation): void {
  if (reductions.includes(operation)) return;
  throw new UsageError('MTL_ARGUMENT', `values cannot be combined by ${String(operation)}`, {
    expected: `operation: ${reductions.map((name) => `'${name}'`).join(', ')}`,
  });
}

/**
 * @throws UsageError MTL_ARGUMENT unless `tensor` is one, such as for an array of numbers;
 *   MTL_DISPOSED_TENSOR
 */
export function checkTensor(operation: string, tensor: Tensor): void {
  // the getter throws where it was disposed of
  if (typeof (tensor as Partial<Tensor> | undefined)?.handle === 'number') return;
  throw new UsageError('MTL_ARGUMENT', `${operation} of something that is no tensor`, {
    expected: 'a Tensor of @mtl/kernels',
    remedy: 'make one with Tensor.from(values, { shape, dtype })',
  });
}

/** @throws UsageError MTL_SHAPE unless `whole` is one `part` for every member. */
export function checkParts(
  operation: string,
  { whole, part, group }: { whole: Tensor; part: Tensor; group: Members },
): void {
  for (const tensor of [whole, part]) checkTensor(operation, tensor);
  if (whole.size === part.size * group.size && whole.dtype === part.dtype) return;
  throw new UsageError(
    'MTL_SHAPE',
    `${operation} between ${whole.dtype} [${whole.shape.join(', ')}] and ${part.dtype} [${part.shape.join(', ')}]`,
    { expected: `one to be ${group.size} times the other, of the same dtype` },
  );
}

/** What an all-to-all sends to each member and receives from it, in elements, by position in the group. */
export interface UnequalParts {
  readonly sent: readonly number[];
  readonly received: readonly number[];
}

/**
 * The parts of an all-to-all; undefined for equal ones.
 *
 * @throws UsageError `MTL_SHAPE` unless both tensors hold the same number of equal parts, one for every
 *   member, or the rows that their splits say
 */
export function checkExchange(
  { input, output, inputSplits, outputSplits }: AllToAllOptions,
  group: Members,
): UnequalParts | undefined {
  for (const tensor of [output, input]) checkTensor('allToAll', tensor);
  if (inputSplits !== undefined || outputSplits !== undefined) {
    return checkSplits({ input, output, inputSplits, outputSplits }, group);
  }
  if (output.size === input.size && input.size % group.size === 0 && output.dtype === input.dtype) return;
  throw new UsageError(
    'MTL_SHAPE',
    `allToAll of ${input.size} ${input.dtype} into ${output.size} ${output.dtype} elements`,
    { expected: `equal sizes that divide by ${group.size}, of the same dtype` },
  );
}

function checkSplits(
  { input, output, inputSplits = [], outputSplits = [] }: AllToAllOptions,
  group: Members,
): UnequalParts {
  const isRows = (splits: readonly number[], { shape }: Tensor): boolean =>
    splits.length === group.size &&
    splits.every((rows) => Number.isSafeInteger(rows) && rows >= 0) &&
    splits.reduce((sum, rows) => sum + rows, 0) === shape[0];
  const rowShape = input.shape.slice(1);
  const isAlike = `${rowShape}` === `${output.shape.slice(1)}` && input.dtype === output.dtype;
  const keeps = inputSplits[group.rank] === outputSplits[group.rank];
  if (isAlike && keeps && isRows(inputSplits, input) && isRows(outputSplits, output)) {
    const rowSize = sizeOf(rowShape);
    const elements = (splits: readonly number[]): number[] => splits.map((rows) => rows * rowSize);
    return { sent: elements(inputSplits), received: elements(outputSplits) };
  }
  const written = ({ dtype, shape }: Tensor, splits: readonly number[]): string =>
    `${dtype} [${shape.join(', ')}] by splits ${splits.join(', ') || '(none)'}`;
  throw new UsageError(
    'MTL_SHAPE',
    `allToAll of ${written(input, inputSplits)} into ${written(output, outputSplits)} on member ${group.rank}`,
    {
      expected: `rows of the same shape and dtype; ${group.size} splits of each that add up to its rows; as many rows to itself as from itself`,
    },
  );
}

/** @throws UsageError MTL_GROUP unless `member` is a position in the group. */
export function checkMember(member: number, group: Members): void {
  if (Number.isInteger(member) && member >= 0 && member < group.size) return;
  throw new UsageError('MTL_GROUP', `no member ${member} in a group of ${group.size}`);
}

/** @throws UsageError MTL_GROUP unless `member` is the position of another member. */
export function checkPeer(member: number, group: Members): void {
  checkMember(member, group);
  if (member === group.rank) throw new UsageError('MTL_GROUP', `a message from rank ${member} to itself`);
}
