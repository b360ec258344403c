import type { PretrainingConfiguration } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import { observeOperations, resetPeakMemory } from '@mtl/kernels';
import { MatmulCalls, type MatmulChoices, timeMatmuls, useMatmulChoices } from '@mtl/kernels/internal';
import type { TransformerConfiguration } from '@mtl/models';
import { dryRunRank, metaRun } from '@mtl/planning';
import { type DryRunListener, distinctRanks, enoughMicroBatches } from '@mtl/planning/internal';
import type { TrainingProcesses } from '@mtl/run-parts';
import { MatmulChoiceFile } from './matmul-choice-file.js';
import { type MatmulPlatform, matmulPlatform } from './matmul-platform.js';

export interface TimeMatmulsOptions {
  readonly model: TransformerConfiguration;
  readonly processes: TrainingProcesses;
  readonly onMessage: (text: string) => void;
  /** The environment, which may name the cache directory. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/**
 * With --time-matmuls: makes all ranks use the same algorithms for the matmuls of the run. The first rank
 * finds the matmuls of every kind of rank in a dry run and times those without a choice in the file, alone on
 * its GPU and before anything of the run is there: the memory that it takes is given back, and no graph is
 * recorded yet. All ranks call it.
 *
 * @throws ConfigurationError `MTL_MATMUL_CHOICES` for ranks of several kinds of GPUs, drivers or versions of
 *   cuBLASLt, and as `MatmulChoiceFile`; KernelError as `timeMatmuls`
 */
export async function timeMatmulsOfRun(
  configuration: PretrainingConfiguration,
  options: TimeMatmulsOptions,
): Promise<void> {
  if (!configuration.parallel.timesMatmuls) return;
  const { processes } = options;
  const platform = matmulPlatform();
  checkSame(platform, processes);
  const chosen = await processes.together(async () =>
    processes.isFirst ? await choose(configuration, { ...options, platform }) : {},
  );
  useMatmulChoices(processes.agree(chosen));
}

function checkSame(own: MatmulPlatform, processes: TrainingProcesses): void {
  const first = processes.agree(own);
  const text = (platform: MatmulPlatform): string => Object.values(platform).join(', ');
  if (text(first) === text(own)) return;
  throw new ConfigurationError('MTL_MATMUL_CHOICES', `--time-matmuls: a rank has ${text(own)}`, {
    expected: `what the first rank has, which chooses for all: ${text(first)}`,
    remedy: 'leave --time-matmuls out',
  });
}

async function choose(
  configuration: PretrainingConfiguration,
  { model, platform, onMessage, variables }: TimeMatmulsOptions & { readonly platform: MatmulPlatform },
): Promise<MatmulChoices> {
  const file = new MatmulChoiceFile(platform, { variables });
  const known = file.read();
  const calls = await matmulsOfRun(configuration, model);
  const timed = timeMatmuls(calls, { known });
  resetPeakMemory('cuda');
  const numNew = Object.keys(timed).length - Object.keys(known).length;
  const choices = file.add(timed);
  onMessage(
    numNew === 0
      ? `algorithms of matmuls: as chosen before, ${file.path}`
      : `algorithms of matmuls: ${numNew} chosen by time, kept in ${file.path}`,
  );
  return choices;
}

/** Keeps the matmuls of the steps of a dry run. */
export function listenerFor(calls: MatmulCalls): DryRunListener {
  return {
    beginStep: () => {},
    endStep: () => {},
    span: (_, body) => observeOperations(calls.observe, body),
  };
}

/** The matmuls of a step of every kind of rank. */
async function matmulsOfRun(
  configuration: PretrainingConfiguration,
  model: TransformerConfiguration,
): Promise<MatmulCalls> {
  const calls = new MatmulCalls();
  const listener = listenerFor(calls);
  const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
  for (const rank of distinctRanks(configuration)) await dryRunRank(run, { rank, model, listener });
  return calls;
}
