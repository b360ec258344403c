import type { CommunicationAxis } from '@mtl/layout';

/**
 * An operation of a pass, with the sizes that determine its time. The lists of this folder are written by
 * hand, for programs that cannot be recorded; for our own programs, dry runs record the operations.
 */
export type Operation =
  | MatmulOperation
  | KernelOperation
  | FusedAttentionOperation
  | CollectiveOperation
  | HiddenCollective
  | StartOperation
  | WaitOperation;

/** The compute dtype. An operation without one has `fp16`; `bf16` has the same time. */
export type ComputeDtype = 'fp32' | 'fp16' | 'bf16';

/** The part of a pass that the time counts for. */
export type TimeKind = 'matmuls' | 'attention' | 'kernels';

interface Variant {
  /** Distinguishes operations of one name with different times: `dropout` if random numbers are drawn. */
  readonly variant?: string;
}

/** `batch` products of [rows, depth] and [depth, columns], whose elements are of the dtype. */
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
   * Bytes that are read and written for one element of the result: 2, or 8 if it is added to a sum in fp32.
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

/** Attention in one kernel that keeps scores on the chip. */
export interface FusedAttentionOperation extends Variant {
  readonly kind: 'fused-attention';
  readonly name: string;
  readonly dtype?: ComputeDtype;
  readonly flops: number;
  readonly bytes: number;
  /** Number of keys that a query may see. */
  readonly keys?: number;
  /** D */
  readonly headSize?: number;
}

/** The ranks of a collective. */
export interface RankGroup {
  /** The axis that its communication counts for. */
  readonly axis: CommunicationAxis;
  /** The name that a run declares it under; absent in lists written by hand. */
  readonly role?: string;
  readonly size: number;
  /** Ranks of the group on one node. */
  readonly perNode: number;
  /** Adapters of a node that the group uses. Default: the adapters of its ranks. */
  readonly adapters?: number;
}

/** A collective that the computation waits for. */
export interface CollectiveOperation {
  readonly kind: 'collective';
  readonly name: string;
  /** `message`: each rank sends to its neighbour, and receives the same number of bytes. */
  readonly collective: 'all-reduce' | 'all-gather' | 'reduce-scatter' | 'all-to-all' | 'message';
  /** Bytes of the whole tensor; for an all-to-all and a message, the bytes that one rank sends. */
  readonly bytes: number;
  readonly group: RankGroup;
}

/** A collective that runs at the same time as a matmul. */
interface HiddenCollective {
  readonly kind: 'hidden-collective';
  readonly collective: CollectiveOperation;
  readonly behind: MatmulOperation;
}

/** A collective that runs behind the operations that follow, until its wait. */
interface StartOperation {
  readonly kind: 'start';
  /** Number of the start and of its wait. */
  readonly id: number;
  readonly collective: CollectiveOperation;
}

/** A wait: the operations that follow need the result of a collective. */
interface WaitOperation {
  readonly kind: 'wait';
  readonly id: number;
}
