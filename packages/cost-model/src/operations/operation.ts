import type { CommunicationAxis } from '@mtl/layout';

/**
 * An operation of a forward or backward pass, with the sizes that determine its time. This folder contains
 * hand-written lists of operations for programs that cannot be recorded. Dry runs record the operations of
 * this project's programs.
 */
export type Operation =
  | MatmulOperation
  | KernelOperation
  | FusedAttentionOperation
  | CollectiveOperation
  | HiddenCollective
  | StartOperation
  | WaitOperation;

/** The compute dtype. Default: `fp16`. `bf16` takes the same time as `fp16`. */
export type ComputeDtype = 'fp32' | 'fp16' | 'bf16';

/** The kind of work to which the time of an operation is attributed. */
export type TimeKind = 'matmuls' | 'attention' | 'kernels';

interface Variant {
  /**
   * Distinguishes operations of the same name with different times: `dropout` if random numbers are drawn.
   */
  readonly variant?: string;
}

/** `batch` matmuls of [rows, depth] and [depth, columns] in the given dtype. */
export interface MatmulOperation extends Variant {
  readonly kind: 'matmul';
  readonly name: string;
  readonly dtype?: ComputeDtype;
  readonly time: TimeKind;
  readonly batch: number;
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  /**
   * Bytes that are read and written per element of the result: 2, or 8 if the result is added to an fp32 sum.
   */
  readonly resultBytes: number;
}

/** A kernel whose time depends on the bytes that it reads and writes. */
export interface KernelOperation extends Variant {
  readonly kind: 'kernel';
  readonly name: string;
  readonly dtype?: ComputeDtype;
  readonly time: TimeKind;
  readonly bytes: number;
}

/** Attention in one kernel, which does not write scores to memory. */
export interface FusedAttentionOperation extends Variant {
  readonly kind: 'fused-attention';
  readonly name: string;
  readonly dtype?: ComputeDtype;
  readonly flops: number;
  readonly bytes: number;
  /** Number of keys to which a query may attend. */
  readonly keys?: number;
  /** D, the size of a head. */
  readonly headSize?: number;
}

/** The ranks that take part in a collective. */
export interface RankGroup {
  /** The axis to which the communication is attributed. */
  readonly axis: CommunicationAxis;
  /** The name under which a run declares the group; absent in hand-written lists. */
  readonly role?: string;
  readonly size: number;
  /** How many of the group's ranks are on one node. */
  readonly perNode: number;
  /** Number of a node's network adapters that the group uses. Default: the adapters of its ranks. */
  readonly adapters?: number;
}

/** A collective that the computation waits for. */
export interface CollectiveOperation {
  readonly kind: 'collective';
  readonly name: string;
  /**
   * The kind of collective. `message`: each rank sends to its neighbour, and receives the same number of
   * bytes.
   */
  readonly collective: 'all-reduce' | 'all-gather' | 'reduce-scatter' | 'all-to-all' | 'message';
  /** Bytes of the complete tensor; for an all-to-all and a message, the bytes that one rank sends. */
  readonly bytes: number;
  readonly group: RankGroup;
}

/** A collective that overlaps with a matmul. */
interface HiddenCollective {
  readonly kind: 'hidden-collective';
  readonly collective: CollectiveOperation;
  readonly behind: MatmulOperation;
}

/** Starts a collective, which overlaps with the following operations until its wait. */
interface StartOperation {
  readonly kind: 'start';
  /** The id that connects the start with its wait. */
  readonly id: number;
  readonly collective: CollectiveOperation;
}

/** Waits for a collective, because the following operations need its result. */
interface WaitOperation {
  readonly kind: 'wait';
  readonly id: number;
}
