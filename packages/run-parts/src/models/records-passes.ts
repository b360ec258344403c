export interface RecordsPassesOptions {
  readonly parallel: { readonly cudaGraphs: boolean; readonly overlapGradReduce: boolean };
  readonly numMicroBatches: number;
  /** Whether there are other ranks with the same parameters. */
  readonly isReplicated: boolean;
  /** Whether parameters have their values only while a layer uses them. */
  readonly releasesValues: boolean;
  readonly onMessage: (text: string) => void;
}

/**
 * Whether any passes of a training run are to be recorded as CUDA graphs. A message tells why not where they
 * were asked for: a recorded pass reads all parameters from where they were, and the micro-batch that starts
 * reductions runs outside of the graph.
 */
export function recordsPasses(options: RecordsPassesOptions): boolean {
  const { parallel, numMicroBatches, isReplicated, releasesValues, onMessage } = options;
  if (!parallel.cudaGraphs) return false;
  if (releasesValues) {
    onMessage('--cuda-graphs has no effect where parameters are sharded: their memory changes');
    return false;
  }
  if (numMicroBatches > 1 || !isReplicated || !parallel.overlapGradReduce) return true;
  onMessage('--cuda-graphs has no effect with --overlap-grad-reduce and one micro-batch a step');
  return false;
}
