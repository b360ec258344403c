import type { CommunicationOperation } from '../process-group.js';

export interface SentBytesOptions {
  /** Of what this rank brings: the input of the operation. */
  readonly inputBytes: number;
  readonly size: number;
  readonly rank: number;
  /** Of a broadcast. */
  readonly root?: number | undefined;
}

/**
 * Bytes that a rank sends, as NCCL's rings do: an all-reduce sends 2 (n - 1) / n of a tensor, a gather or a
 * scatter half of that.
 */
export function sentBytes(operation: CommunicationOperation, options: SentBytesOptions): number {
  const { inputBytes, size, rank, root } = options;
  const others = size - 1;
  switch (operation) {
    case 'allReduce':
      return (2 * inputBytes * others) / size;
    case 'allGather':
      return inputBytes * others;
    case 'reduceScatter':
    case 'allToAll': // of equal parts
      return (inputBytes * others) / size;
    case 'broadcast':
      // along the ring from the root; the last one passes nothing on
      return (rank + 1) % size === root ? 0 : inputBytes;
    case 'send':
      return inputBytes;
    case 'receive':
    case 'barrier':
      return 0;
  }
}
