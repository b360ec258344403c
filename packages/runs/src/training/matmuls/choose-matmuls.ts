import type { Checkpoint } from '@mtl/checkpoint';
import type { PretrainingConfiguration, RecordedMatmuls, SavedConfiguration } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import { resetPeakMemory } from '@mtl/kernels';
import {
  type ChoosingDevice,
  type MatmulChoices,
  matmulChoicesInUse,
  timeMatmuls,
  useMatmulChoices,
} from '@mtl/kernels/matmul-choices';
import type { TransformerConfiguration } from '@mtl/models';
import type { TrainingProcesses } from '../../parts/ranks/training-processes.js';
import { planningFor, type RunPlanning } from '../run-planning.js';
import { MatmulChoiceFile } from './matmul-choice-file.js';
import { formatPlatform, type MatmulPlatform, matmulPlatform } from './matmul-platform.js';

export interface TimeMatmulsOptions {
  readonly model: TransformerConfiguration;
  readonly processes: TrainingProcesses;
  /** The planner, which finds the run's matmuls. */
  readonly planning: RunPlanning | undefined;
  /**
   * Algorithms that are already chosen, for matmuls that are not timed again. They override the choices in
   * the file. Default: none.
   */
  readonly known?: MatmulChoices;
  readonly onMessage: (text: string) => void;
  /** The environment variables, which may name the cache directory. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/**
 * With --time-matmuls, makes all ranks use the same algorithms for the run's matmuls. The first rank
 * finds the matmuls of every kind of rank in a dry run, and times the matmuls that have no choice in the
 * file. All ranks must call this function. On device `cuda`, the call must come before the run allocates
 * memory or records graphs, so that the first rank can use the whole GPU. On device `cpu`, the number of
 * threads must be set before the call. The memory for timing is released afterwards.
 *
 * @throws ConfigurationError `MTL_MATMUL_CHOICES` for ranks on several platforms; the errors of
 *   `MatmulChoiceFile` and `timeMatmuls`
 */
export async function timeMatmulsOfRun(
  configuration: PretrainingConfiguration,
  options: TimeMatmulsOptions,
): Promise<void> {
  if (!configuration.parallel.timesMatmuls) return;
  const { processes } = options;
  const device = choosingDevice(configuration);
  const platform = matmulPlatform(device);
  checkSame(platform, processes);
  const chosen = await processes.together(async () =>
    processes.isFirst ? await choose(configuration, { ...options, platform }) : {},
  );
  useMatmulChoices(processes.agree(chosen), { device });
}

/** Returns the device on which a run trains. The device of a dry run is `meta`. */
const choosingDevice = ({ parallel }: PretrainingConfiguration): ChoosingDevice =>
  parallel.device === 'cuda' ? 'cuda' : 'cpu';

function checkSame(own: MatmulPlatform, processes: TrainingProcesses): void {
  const [text, first] = [formatPlatform(own), processes.agree(formatPlatform(own))];
  if (first === text) return;
  throw new ConfigurationError('MTL_MATMUL_CHOICES', `--time-matmuls: a rank has ${text}`, {
    expected: `what the first rank has, which chooses for all: ${first}`,
    remedy: 'leave --time-matmuls out',
  });
}

async function choose(
  configuration: PretrainingConfiguration,
  {
    model,
    platform,
    planning,
    known: given = {},
    onMessage,
    variables,
  }: TimeMatmulsOptions & { readonly platform: MatmulPlatform },
): Promise<MatmulChoices> {
  const { device } = platform;
  const file = new MatmulChoiceFile(platform, { variables });
  const known = { ...file.read(), ...given };
  const calls = await planningFor('--time-matmuls', planning).matmulsOfRun(configuration, model);
  const timed = timeMatmuls(calls, { device, known });
  resetPeakMemory(device);
  const numNew = Object.keys(timed).filter((problem) => known[problem] === undefined).length;
  const kept = file.add(timed);
  onMessage(
    numNew === 0
      ? `algorithms of matmuls: as chosen before, ${file.path}`
      : `algorithms of matmuls: ${numNew} chosen by time, kept in ${file.path}`,
  );
  const choices = Object.keys(timed).map((problem) => [problem, given[problem] ?? kept[problem]!] as const);
  return Object.fromEntries(choices);
}

/**
 * Makes matmuls use the choices of the resumed checkpoint, so that results repeat. On device `cpu`, also
 * times the matmuls of a run with --time-matmuls. All ranks must call this function after their threads are
 * set and before their first step. If the checkpoint is from a different platform, a message reports that its
 * choices are not used.
 *
 * @returns the choices in use, for run.json and checkpoints; undefined for a run without choices
 * @throws the errors of `timeMatmulsOfRun`
 */
export async function chooseMatmuls(
  configuration: PretrainingConfiguration,
  { resumed, ...options }: TimeMatmulsOptions & { readonly resumed: Checkpoint | undefined },
): Promise<RecordedMatmuls | undefined> {
  const { timesMatmuls } = configuration.parallel;
  const recorded = (resumed?.state.configuration as Partial<SavedConfiguration> | undefined)?.matmuls;
  if (!timesMatmuls && recorded === undefined) return undefined;
  const device = choosingDevice(configuration);
  const platform = formatPlatform(matmulPlatform(device));
  const isSame = options.processes.agree(recorded?.platform === platform);
  if (recorded !== undefined && !isSame)
    options.onMessage(
      `  note: the algorithms of matmuls in ${resumed!.path} were chosen for ${recorded.platform}; they are not used, and results differ by rounding`,
    );
  const known = isSame ? recorded!.choices : {};
  if (timesMatmuls && device === 'cpu') await timeMatmulsOfRun(configuration, { ...options, known });
  else useMatmulChoices({ ...matmulChoicesInUse({ device }), ...known }, { device });
  const choices = matmulChoicesInUse({ device });
  return Object.keys(choices).length === 0 ? undefined : { platform, choices };
}
