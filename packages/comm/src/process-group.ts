import type { Tensor } from '@mtl/kernels';

/** A way to combine values. 16-bit floats are summed in float32, in rank order, and rounded once. */
export type ReduceOperation = 'sum' | 'max' | 'min';

/**
 * An engine that transfers tensors in host memory: shared memory within one host, Gloo between hosts (with
 * shared memory within each).
 */
type HostEngineName = 'local' | 'gloo' | 'gloo+local';

/**
 * The engine of a group: an engine for host memory; the same through which tensors of GPUs are copied as well
 * (`staged+`); NCCL between GPUs; worker threads (`memory`); or no transfer (`single`: the only rank; `meta`:
 * only this rank of several exists).
 */
export type EngineName = HostEngineName | `staged+${HostEngineName}` | 'nccl' | 'memory' | 'single' | 'meta';

/** The operations of a group, as errors and statistics name them. */
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
 * An operation in progress. The values of its tensors must not change until `wait` has returned; the tensors
 * may be disposed earlier (the operation holds their memory). `await work` waits without blocking the event
 * loop.
 */
export interface Work extends PromiseLike<void> {
  /**
   * Blocks until the result is ready (on a GPU: until later work of the compute stream is sure to see it).
   * Throws the error of the operation.
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
   * Rows (of the first dimension) of `input` for each member, by position in the group. Default: the same
   * number for each member. `inputSplits` and `outputSplits` are input_split_sizes and output_split_sizes of
   * PyTorch's `all_to_all_single`.
   */
  readonly inputSplits?: readonly number[] | undefined;
  /** Rows of `output` from each member; with `inputSplits` only. */
  readonly outputSplits?: readonly number[] | undefined;
}

export interface OperationCount {
  readonly calls: number;
  /** Bytes that this rank sent to the others, counted when they are transferred. */
  readonly sentBytes: number;
  /** Seconds that this rank's main thread was blocked in `wait`. */
  readonly waitedSeconds: number;
}

/**
 * Ranks that communicate. Every member must start the same operations in the same order; an operation that
 * some member never starts, or starts with another size or dtype, is a CommunicationError on all members.
 * Results have the same bits regardless of timing.
 *
 * Operations start at once and return a `Work`. A group runs its operations in the order in which they were
 * started. Errors that can be seen locally (shapes, dtypes, ranks) are thrown at the start as UsageError.
 */
export interface ProcessGroup {
  readonly name: string;
  readonly engine: EngineName;
  /** Global ranks of the members, ascending. */
  readonly ranks: readonly number[];
  /** The position of this process among `ranks`. */
  readonly rank: number;
  readonly size: number;

  /**
   * Reduces over all members in place: every member's tensor becomes the sum (or maximum, minimum) of all.
   */
  allReduce(tensor: Tensor, options?: { readonly operation?: ReduceOperation }): Work;
  /** Concatenates all inputs by rank into `output`. `input` may be this rank's part of `output`. */
  allGather(tensors: { readonly output: Tensor; readonly input: Tensor }): Work;
  /**
   * Reduces the inputs of all members and writes this rank's part of the result into `output`, which may be
   * this rank's part of `input`.
   */
  reduceScatter(tensors: {
    readonly output: Tensor;
    readonly input: Tensor;
    readonly operation?: ReduceOperation;
  }): Work;
  /** Copies the tensor of `root` (a position in the group) to every member, in place. */
  broadcast(tensor: Tensor, options: { readonly root: number }): Work;
  /**
   * Exchanges parts: `output` receives one part from every rank, in rank order; `input` has one part for
   * every rank. Parts have equal sizes unless splits are given. The two tensors must not overlap. Engines
   * other than NCCL check that each rank sends the number of elements that its receiver expects.
   */
  allToAll(tensors: AllToAllOptions): Work;
  /**
   * Sends `tensor` to `to` (a position in the group). The sends and receives between two members match in
   * order, independently of all other operations.
   */
  send(tensor: Tensor, options: { readonly to: number }): Work;
  /** Receives into `tensor` from `from` (a position in the group). */
  receive(tensor: Tensor, options: { readonly from: number }): Work;
  /** Waits for all members: the barrier is done when every member has started it. */
  barrier(): Work;

  /** Returns the counts of this rank's operations so far, by kind. */
  statistics(): Readonly<Record<CommunicationOperation, OperationCount>>;
  /** Releases the group's resources; a second call does nothing. */
  close(): void;
  [Symbol.dispose](): void;
}

/** The operations in the order of their native numbers (native/core/operation.h). */
export const communicationOperations: readonly CommunicationOperation[] = [
  ...(['allReduce', 'allGather', 'reduceScatter', 'broadcast'] as const),
  ...(['allToAll', 'send', 'receive', 'barrier'] as const),
];
