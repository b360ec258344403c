/** Bytes as the caching allocator of a device counts them. */
export interface MemoryStatistics {
  /** In use now. */
  readonly bytesInUse: number;
  /** The highest `bytesInUse` since the last `resetPeakMemory`. */
  readonly peakBytes: number;
  /** In use and cached for reuse. */
  readonly bytesReserved: number;
  /** Live blocks. */
  readonly numAllocations: number;
}
