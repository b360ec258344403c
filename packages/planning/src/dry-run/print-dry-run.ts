import { readProcessEnvironment, type Variables } from '@mtl/comm';
import {
  type Flags,
  type ParsedFlags,
  printConfiguration,
  resolveFlags,
  validateConfiguration,
  withLoadedFlags,
} from '@mtl/configuration';
import { loadModelBlocks, openConversations } from '@mtl/run-parts';
import { readLoadedFlags } from '@mtl/saved-models';
import { dryRun } from './dry-run.js';
import { formatDryRun } from './format-dry-run.js';

export interface PrintDryRunOptions {
  /** Of the run. They need no data. */
  readonly flags: ParsedFlags;
  /** That the run would have. Default: those that are there, or as many as one copy of the model takes. */
  readonly numProcesses?: number | undefined;
  /** The environment: under a launcher only the first process does anything. */
  readonly variables: Variables;
  readonly print: (text: string) => void;
}

/**
 * What a training program does with --dry-run: prints the configuration and what the run takes.
 *
 * @throws whatever checking the flags, building the run and its first step throw
 */
export async function printDryRun(options: PrintDryRunOptions): Promise<void> {
  const { numProcesses, variables, print } = options;
  const { rank, worldSize: numRunning } = readProcessEnvironment(variables);
  if (rank > 0) return;
  const asked = withoutData(options.flags);
  await loadModelBlocks(asked);
  const flags = withLoadedFlags(asked, await readLoadedFlags(asked));
  const worldSize = numProcesses ?? (numRunning > 1 ? numRunning : leastProcesses(flags.values));
  // conversations are: their number is that of the steps
  const conversations = await openConversations(flags);
  const configuration = validateConfiguration(flags, { worldSize, conversations: conversations?.samples });
  print(printConfiguration(configuration, { all: false }));
  print(formatDryRun(configuration, await dryRun(configuration)));
}

/** Those of one copy of the model, or of as many copies as its experts are spread over. */
function leastProcesses({
  'tensor-model-parallel-size': tensor = 1,
  'context-parallel-size': context = 1,
  'pipeline-model-parallel-size': pipeline = 1,
  'expert-model-parallel-size': expert = 1,
  'expert-tensor-parallel-size': sharing = tensor,
}: Flags): number {
  const copy = tensor * context;
  let stage = copy;
  while (stage % (expert * sharing) !== 0 && stage < copy * expert * sharing) stage += copy;
  return stage * pipeline;
}

/** Datasets are not opened, and none needs to be named. */
function withoutData(flags: ParsedFlags): ParsedFlags {
  const request = { ...flags.request, unused: { ...flags.request.unused, 'data-path': ['bundled'] } };
  return { ...flags, ...resolveFlags(request), request };
}
