import type { Tensor } from '@mtl/kernels';

/** The kinds of reduction. Sums of 16-bit floats are computed in float32, in rank order, and rounded once. */
export type ReduceOperation = 'sum' | 'max' | 'min';

/**
 * An engine for tensors in host memory: shared memory on one host (`local`), Gloo across hosts (`gloo`), or
 * shared memory within each host and Gloo across hosts (`gloo+local`).
 */
type HostEngineName = 'local' | 'gloo' | 'gloo+local';

/**
 * The engine of a group:
 * - a host engine, for tensors in host memory
 * - `staged+` and a host engine: also accepts tensors on GPUs, by copying them through host memory
 * - `nccl`: NCCL between GPUs
 * - `memory`: worker threads of one process
 * - `single`: the group has only this rank
 * - `meta`: the group has several ranks, but only this rank exists
 */
export type EngineName = HostEngineName | `staged+${HostEngineName}` | 'nccl' | 'memory' | 'single' | 'meta';

/** The operations of a group, under their names in errors and statistics. */
export type CommunicationOperation =
  | 'allReduce'
  | 'allGather'
  | 'reduceScatter'
  | 'broadcast'
  | 'allToAll'
  | 'send'
  | 'receive'
  | 'barrier';

/**
 * An operation in progress. The values of its tensors must not change until `wait` has returned. The caller
 * may dispose of the tensors earlier, because the operation holds their memory. `await work` waits without
 * blocking the event loop.
 */
export interface Work extends PromiseLike<void> {
  /**
   * Blocks until the result is ready. On a GPU, blocks until later work of the compute stream is certain to
   * use the result. Throws the error of the operation.
   */
  wait(): void;
  /** True if `wait` would return at once. */
  readonly isDone: boolean;
}

/** The operands of an all-to-all. */
export interface AllToAllOptions {
  readonly output: Tensor;
  readonly input: Tensor;
  /**
   * How many rows (first dimension) of `input` each member gets, by position in the group. Default: the same
   * number for each member. `inputSplits` and `outputSplits` correspond to input_split_sizes and
   * output_split_sizes of PyTorch's `all_to_all_single`.
   */
  readonly inputSplits?: readonly number[] | undefined;
  /**
   * How many rows of `output` come from each member, by position in the group. Given only with `inputSplits`.
   */
  readonly outputSplits?: readonly number[] | undefined;
}

export interface OperationCount {
  readonly calls: number;
  /** How many bytes this rank has sent to other ranks, counted when they are transferred. */
  readonly sentBytes: number;
  /** The seconds for which this rank's main thread has been blocked in `wait`. */
  readonly waitedSeconds: number;
}

/**
 * Ranks that communicate. Every member must start the same operations in the same order. If a member never
 * starts an operation, or starts it with a different size or dtype, all members get a CommunicationError. The
 * timing does not affect the bits of results.
 *
 * Operations start immediately and return a `Work`. A group runs them in the order of their starts. Errors
 * that a single rank can detect (in shapes, dtypes or ranks) are thrown at the start as UsageError.
 */
export interface ProcessGroup {
  readonly name: string;
  readonly engine: EngineName;
  /** Global ranks of the members, ascending. */
  readonly ranks: readonly number[];
  /** The position of this process in `ranks`. */
  readonly rank: number;
  readonly size: number;

  /**
   * Reduces over all members in place: every member's tensor becomes the sum (or maximum, or minimum) over
   * all members.
   */
  allReduce(tensor: Tensor, options?: { readonly operation?: ReduceOperation }): Work;
  /**
   * Concatenates the inputs of all members in rank order into `output`. `input` may be this rank's part of
   * `output`.
   */
  allGather(tensors: { readonly output: Tensor; readonly input: Tensor }): Work;
  /**
   * Reduces the inputs of all members and writes this rank's slice of the result into `output`, which may be
   * this rank's slice of `input`.
   */
  reduceScatter(tensors: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work;
  /** Copies the tensor of `root` (a position in the group) to every member, in place. */
  broadcast(tensor: Tensor, options: { readonly root: number }): Work;
  /**
   * Sends a different part of `input` to each rank, and receives a part of `output` from each rank. Both
   * tensors contain their parts in rank order. If no splits are given, the parts have equal sizes. The two
   * tensors must not overlap. All engines except NCCL check that each rank sends the number of elements that
   * the receiver expects.
   */
  allToAll(tensors: AllToAllOptions): Work;
  /**
   * Sends `tensor` to `to` (a position in the group). Sends and receives between two members are matched in
   * order, independently of all other operations.
   */
  send(tensor: Tensor, options: { readonly to: number }): Work;
  /** Receives into `tensor` from `from` (a position in the group). */
  receive(tensor: Tensor, options: { readonly from: number }): Work;
  /** Waits for all members. A barrier is done when every member has started it. */
  barrier(): Work;

  /**
   * Returns, for each kind of operation, how often this rank has started it, how many bytes it has sent, and
   * how long it has waited.
   */
  statistics(): Readonly<Record<CommunicationOperation, OperationCount>>;
  /** Releases the group's resources; a second call does nothing. */
  close(): void;
  [Symbol.dispose](): void;
}

/** The operations in the order of their native enumeration values (see native/core/operation.h). */
export const communicationOperations: readonly CommunicationOperation[] = [
  ...(['allReduce', 'allGather', 'reduceScatter', 'broadcast'] as const),
  ...(['allToAll', 'send', 'receive', 'barrier'] as const),
];
