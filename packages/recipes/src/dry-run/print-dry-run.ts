import { readProcessEnvironment, type Variables } from '@mtl/comm';
import {
  type Flags,
  type ModelKind,
  parseFlags,
  printConfiguration,
  validateConfiguration,
  withLoadedFlags,
} from '@mtl/configuration';
import { openConversations } from '../conversations/open-conversations.js';
import { loadModelBlocks } from '../models/load-model-blocks.js';
import { readLoadedFlags } from '../training/read-loaded-flags.js';
import { dryRun } from './dry-run.js';
import { formatDryRun } from './format-dry-run.js';

export interface PrintDryRunOptions {
  readonly model: ModelKind;
  /** The words of the command line, --dry-run among them. */
  readonly argv: readonly string[];
  /** As in `RunTrainingProgramOptions`. */
  readonly defaults?: Flags | undefined;
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
  const { model, argv, defaults = {}, variables, print } = options;
  const { rank, worldSize: numRunning } = readProcessEnvironment(variables);
  if (rank > 0) return;
  // datasets are not opened
  const parsed = parseFlags(argv, { model, unused: { ...defaults, 'data-path': ['bundled'] } });
  await loadModelBlocks(parsed);
  const flags = withLoadedFlags(parsed, await readLoadedFlags(parsed));
  const {
    'num-processes': asked,
    'tensor-model-parallel-size': tensor = 1,
    'pipeline-model-parallel-size': pipeline = 1,
  } = flags.values;
  const worldSize = asked ?? (numRunning > 1 ? numRunning : tensor * pipeline);
  // conversations are: their number is that of the steps
  const conversations = await openConversations(flags);
  const configuration = validateConfiguration(flags, { worldSize, conversations: conversations?.samples });
  print(printConfiguration(configuration, { all: false }));
  print(formatDryRun(configuration, await dryRun(configuration)));
}
