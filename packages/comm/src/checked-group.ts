import { UsageError } from '@mtl/errors';
import { countElements, type Tensor } from '@mtl/kernels';
import { refuseInGraph } from '@mtl/kernels/internal';
import type {
  AllToAllOptions,
  CommunicationOperation,
  EngineName,
  OperationCount,
  ProcessGroup,
  ReduceOperation,
  Work,
} from './process-group.js';
import type { GroupOptions } from './world.js';

type Members = Pick<ProcessGroup, 'size' | 'rank'>;

/** The kinds of reduction, in the order of the native enumeration (see native/core/operation.h). */
export const reductions: readonly ReduceOperation[] = ['sum', 'max', 'min'];

/**
 * Rejects an unknown reduction.
 *
 * @throws UsageError MTL_ARGUMENT
 */
function checkReduction(operation: ReduceOperation): void {
  if (reductions.includes(operation)) return;
  throw new UsageError('MTL_ARGUMENT', `values cannot be combined by ${String(operation)}`, {
    expected: `operation: ${reductions.map((name) => `'${name}'`).join(', ')}`,
  });
}

/**
 * Rejects an operand that cannot be communicated.
 *
 * @throws UsageError MTL_ARGUMENT for a value that is not a tensor (for example, an array of numbers),
 *   MTL_DISPOSED_TENSOR; KernelError MTL_CAPTURE while a graph of device cpu is being recorded, because
 *   engines would move values that have not been computed yet
 */
function checkTensor(operation: string, tensor: Tensor): void {
  // the getter throws for a tensor that has been disposed
  if (typeof (tensor as Partial<Tensor> | undefined)?.handle === 'number') {
    if (tensor.device === 'cpu') refuseInGraph('cpu', 'communication between ranks');
    return;
  }
  throw new UsageError('MTL_ARGUMENT', `${operation} of something that is no tensor`, {
    expected: 'a Tensor of @mtl/kernels',
    remedy: 'make one with Tensor.from(values, { shape, dtype })',
  });
}

/** @throws UsageError MTL_SHAPE unless `whole` consists of one `part` per member, in the same dtype. */
function checkParts(
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

/** How many elements an all-to-all sends to and receives from each member, by position in the group. */
interface UnequalCounts {
  readonly sent: readonly number[];
  readonly received: readonly number[];
}

/**
 * Checks the operands of an all-to-all and returns its splits; undefined for equal splits.
 *
 * @throws UsageError `MTL_SHAPE` if the tensors do not consist of equal parts, one for every member; with
 *   splits, if the number of rows of a tensor is not the sum of its splits
 */
function checkExchange(
  { input, output, inputSplits, outputSplits }: AllToAllOptions,
  group: Members,
): UnequalCounts | undefined {
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
): UnequalCounts {
  const isRows = (splits: readonly number[], { shape }: Tensor): boolean =>
    splits.length === group.size &&
    splits.every((rows) => Number.isSafeInteger(rows) && rows >= 0) &&
    splits.reduce((sum, rows) => sum + rows, 0) === shape[0];
  const rowShape = input.shape.slice(1);
  const isAlike = `${rowShape}` === `${output.shape.slice(1)}` && input.dtype === output.dtype;
  const keeps = inputSplits[group.rank] === outputSplits[group.rank];
  if (isAlike && keeps && isRows(inputSplits, input) && isRows(outputSplits, output)) {
    const rowSize = countElements(rowShape);
    const elements = (splits: readonly number[]): number[] => splits.map((rows) => rows * rowSize);
    return { sent: elements(inputSplits), received: elements(outputSplits) };
  }
  const written = ({ dtype, shape }: Tensor, splits: readonly number[]): string =>
    `${dtype} [${shape.join(', ')}] by splits ${splits.join(', ') || '(none)'}`;
  throw new UsageError(
    'MTL_SHAPE',
    `allToAll of ${written(input, inputSplits)} into ${written(output, outputSplits)} on member ${group.rank}`,
    {
      expected: `rows of the same shape and dtype; ${group.size} splits of each, whose sum is its number of rows; the same number of rows to itself as from itself`,
    },
  );
}

/** @throws UsageError MTL_GROUP unless `member` is a position in the group. */
function checkMember(member: number, group: Members): void {
  if (Number.isInteger(member) && member >= 0 && member < group.size) return;
  throw new UsageError('MTL_GROUP', `no member ${member} in a group of ${group.size}`);
}

/** @throws UsageError MTL_GROUP unless `member` is the position of a member other than this one. */
function checkPeer(member: number, group: Members): void {
  checkMember(member, group);
  if (member === group.rank) throw new UsageError('MTL_GROUP', `a message from rank ${member} to itself`);
}

/** @throws UsageError MTL_GROUP unless `ranks` are distinct and ascending and include `rank`. */
export function checkRanks({ name, ranks }: GroupOptions, rank: number): void {
  const isAscending = ranks.every((each, index) => index === 0 || each > ranks[index - 1]!);
  if (isAscending && ranks.includes(rank)) return;
  throw new UsageError('MTL_GROUP', `group ${name} of ranks [${ranks.join(', ')}] on rank ${rank}`, {
    expected: 'distinct ranks in ascending order, this one among them',
  });
}

export interface CheckedGroupOptions extends GroupOptions {
  /** The global rank of this process. */
  readonly worldRank: number;
}

/** An operation whose operands and options have been checked. */
export interface CheckedOperation {
  readonly operation: CommunicationOperation;
  readonly input?: Tensor;
  readonly output?: Tensor;
  readonly reduction?: ReduceOperation;
  /**
   * A position in the group: the root of a broadcast, or the peer that a message is sent to or received from.
   */
  readonly peer?: number;
  /** The part sizes of an all-to-all; undefined if all parts are equal. */
  readonly parts?: UnequalCounts | undefined;
}

/** A process group that checks the operands of every operation before its engine starts the operation. */
export abstract class CheckedGroup implements ProcessGroup {
  abstract readonly engine: EngineName;
  readonly name: string;
  readonly ranks: readonly number[];
  readonly rank: number;
  readonly size: number;

  constructor({ name, ranks, worldRank }: CheckedGroupOptions) {
    this.name = name;
    this.ranks = Object.freeze([...ranks]);
    this.rank = ranks.indexOf(worldRank);
    this.size = ranks.length;
  }

  allReduce(tensor: Tensor, { operation = 'sum' }: { readonly operation?: ReduceOperation } = {}): Work {
    checkTensor('allReduce', tensor);
    checkReduction(operation);
    return this.start({ operation: 'allReduce', input: tensor, output: tensor, reduction: operation });
  }

  allGather({ output, input }: { readonly output: Tensor; readonly input: Tensor }): Work {
    checkParts('allGather', { whole: output, part: input, group: this });
    return this.start({ operation: 'allGather', input, output });
  }

  reduceScatter(call: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work {
    const { output, input, operation = 'sum' } = call;
    checkParts('reduceScatter', { whole: input, part: output, group: this });
    checkReduction(operation);
    return this.start({ operation: 'reduceScatter', input, output, reduction: operation });
  }

  broadcast(tensor: Tensor, { root }: { readonly root: number }): Work {
    checkTensor('broadcast', tensor);
    checkMember(root, this);
    return this.start({ operation: 'broadcast', input: tensor, output: tensor, peer: root });
  }

  allToAll(tensors: AllToAllOptions): Work {
    const parts = checkExchange(tensors, this);
    const { input, output } = tensors;
    return this.start({ operation: 'allToAll', input, output, parts });
  }

  send(tensor: Tensor, { to }: { readonly to: number }): Work {
    checkTensor('send', tensor);
    checkPeer(to, this);
    return this.start({ operation: 'send', input: tensor, peer: to });
  }

  receive(tensor: Tensor, { from }: { readonly from: number }): Work {
    checkTensor('receive', tensor);
    checkPeer(from, this);
    return this.start({ operation: 'receive', output: tensor, peer: from });
  }

  barrier(): Work {
    return this.start({ operation: 'barrier' });
  }

  abstract statistics(): Readonly<Record<CommunicationOperation, OperationCount>>;
  abstract close(): void;

  [Symbol.dispose](): void {
    this.close();
  }

  /** Starts an operation whose operands have been checked. */
  protected abstract start(operation: CheckedOperation): Work;
}
