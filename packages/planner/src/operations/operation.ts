/**
 * What a pass runs, with what its time depends on. The lists of this folder are made by hand, for programs
 * that cannot be recorded; of the programs here, dry runs record them.
 */
export type Operation =
  | MatmulOperation
  | KernelOperation
  | FusedAttentionOperation
  | CollectiveOperation
  | HiddenCollective
  | StartOperation
  | WaitOperation;

/** What is computed with. Absent of an operation: `fp16`, whose time `bf16` shares. */
export type ComputeDtype = 'fp32' | 'fp16' | 'bf16';

/** Where time goes. */
export type TimeKind = 'matmuls' | 'attention' | 'kernels';

interface Variant {
  /** Distinguishes operations of one name whose times differ: `dropout` where random numbers are drawn. */
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
  /** Read and written of one element of the result: 2, or 8 where it is added to a sum in fp32. */
  readonly resultBytes: number;
}

/** A kernel whose time is that of the bytes it reads and writes. */
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
  /** That a query may see. */
  readonly keys?: number;
  /** D */
  readonly headSize?: number;
}

/** The ranks of a collective. */
export interface RankGroup {
  readonly axis: 'tensor' | 'context' | 'expert' | 'pipeline' | 'data';
  readonly size: number;
  /** Ranks of the group on one node. */
  readonly perNode: number;
  /** Adapters of a node that the group uses. Default: those of its ranks. */
  readonly adapters?: number;
}

/** A collective that the computation waits for. */
export interface CollectiveOperation {
  readonly kind: 'collective';
  readonly name: string;
  /** `message`: each rank sends to its neighbour, and receives as much. */
  readonly collective: 'all-reduce' | 'all-gather' | 'reduce-scatter' | 'all-to-all' | 'message';
  /** Of the whole tensor; of an all-to-all and a message, what one rank sends. */
  readonly bytes: number;
  readonly group: RankGroup;
}

/** A collective that runs at the same time as a matmul. */
export interface HiddenCollective {
  readonly kind: 'hidden-collective';
  readonly collective: CollectiveOperation;
  readonly behind: MatmulOperation;
}

/** A collective that runs behind what follows, until its wait. */
export interface StartOperation {
  readonly kind: 'start';
  /** Of the start and its wait. */
  readonly id: number;
  readonly collective: CollectiveOperation;
}

/** What follows needs the result of a collective. */
export interface WaitOperation {
  readonly kind: 'wait';
  readonly id: number;
}
