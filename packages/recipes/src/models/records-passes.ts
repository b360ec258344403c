export interface RecordsPassesOptions {
  readonly parallel: { readonly cudaGraphs: boolean; readonly overlapGradReduce: boolean };
  readonly numMicroBatches: number;
  /** Whether there are other ranks with the same parameters. */
  readonly isReplicated: boolean;
  readonly onMessage: (text: string) => void;
}

/**
 * Whether any passes of a training run are to be recorded as CUDA graphs. Where they were asked for, but the
 * only micro-batch of a step is the one that starts reductions and so runs outside of the graph, a message
 * tells.
 */
export function recordsPasses(options: RecordsPassesOptions): boolean {
  const { parallel, numMicroBatches, isReplicated, onMessage } = options;
  if (!parallel.cudaGraphs) return false;
  if (numMicroBatches > 1 || !isReplicated || !parallel.overlapGradReduce) return true;
  onMessage('--cuda-graphs has no effect with --overlap-grad-reduce and one micro-batch a step');
  return false;
}
