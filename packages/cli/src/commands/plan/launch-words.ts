export interface LaunchWordsOptions {
  readonly program: string;
  /** Of the program. */
  readonly flags: readonly string[];
  readonly numProcesses: number;
  readonly gpusPerNode: number;
}

/** How many nodes so many processes take, as many on each. */
export function numNodesOf(numProcesses: number, gpusPerNode: number): number {
  let numNodes = Math.ceil(numProcesses / gpusPerNode);
  while (numProcesses % numNodes !== 0) numNodes++;
  return numNodes;
}

/** The words that start a training program: on several nodes, those of the first one. */
export function launchWords({ program, flags, numProcesses, gpusPerNode }: LaunchWordsOptions): string[] {
  if (numProcesses === 1) return [program, ...flags];
  const numNodes = numNodesOf(numProcesses, gpusPerNode);
  const nodes =
    numNodes === 1 ? [] : ['--nnodes', `${numNodes}`, '--node-rank', '0', '--master-addr', 'HOST'];
  const perNode = `${numProcesses / numNodes}`;
  return ['mtl', 'run', ...nodes, '--nproc-per-node', perNode, program, '--', ...flags];
}
