import type {
  ConversationSamples,
  ParsedFlags,
  PretrainingConfiguration,
  ResolvedFlags,
} from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import { functionOption, type OptionCheck, objectOption, required } from '@mtl/errors/options';
import type { MatmulCalls } from '@mtl/kernels/internal';
import type { TransformerConfiguration } from '@mtl/models';
import type { GroupsByRole } from '@mtl/optimizer';
import type { StepListener } from '@mtl/pipeline';
import type { TrainingReporter } from '@mtl/trainer';

type Variables = Readonly<Record<string, string | undefined>>;

/** The dry run of a program's flags. */
export interface DryRunOfProgram {
  /** Flags of the run; data flags are not required. */
  readonly flags: ParsedFlags;
  /**
   * Number of processes of the planned run. Default: the number of joined processes, or the number that one
   * copy of the model needs.
   */
  readonly numProcesses?: number | undefined;
  /** The environment: under a launcher only the first process prints. */
  readonly variables: Variables;
  readonly print: (text: string) => void;
}

/** The run that an error ended. */
export interface FailedRun {
  readonly resolved: ResolvedFlags;
  readonly configuration: PretrainingConfiguration;
  /** Samples of its conversations, if it trains on conversations. */
  readonly conversations?: ConversationSamples | undefined;
  /** The rank that failed. */
  readonly rank: number;
}

/** Compares the steps of a run with its plan. */
export interface StepComparison extends TrainingReporter {
  /** Returns the comparison of all steady steps so far. */
  text(): string;
}

/** Opens the comparison of a run's steps with its plan; `write` is called once the steps are steady. */
export type OpenComparison = (options: {
  readonly groups: GroupsByRole;
  readonly write: (text: string) => void;
}) => StepComparison;

/** The steps whose operations are profiled. */
export interface OperationsToProfile {
  /** The steps, by the trainer's numbers, both included. */
  readonly first: number;
  readonly last: number;
  /** Returns the seconds that this process has waited for others so far. */
  readonly waitedSeconds: () => number;
  readonly onMessage: (text: string) => void;
}

/**
 * A planner that a training run calls. `planning` of @mtl/planning implements it, and programs pass it in. A
 * run without a planner trains the same way, and refuses flags that need one.
 */
export interface RunPlanning {
  /** Prints the resources of a run, for --dry-run. */
  printDryRun(options: DryRunOfProgram): Promise<void>;
  /** Returns an error with advice if memory ran out; other errors are returned unchanged. */
  explainOutOfMemory(error: unknown, run: FailedRun): Promise<unknown>;
  /**
   * Plans the run for --compare-with-plan.
   *
   * @returns a function that opens the comparison of its steps
   * @throws ConfigurationError for a run that cannot be compared
   */
  planToCompare(configuration: PretrainingConfiguration, variables: Variables): Promise<OpenComparison>;
  /** Returns the matmuls of a step of every kind of rank, for --time-matmuls. */
  matmulsOfRun(
    configuration: PretrainingConfiguration,
    model: TransformerConfiguration,
  ): Promise<MatmulCalls>;
  /** Opens the listener that reports the time of each operation in the steps of --profile-steps. */
  profileOperations(options: OperationsToProfile): StepListener;
}

export const planningOption: OptionCheck<false> = objectOption('`planning` of @mtl/planning', {
  printDryRun: required(functionOption),
  explainOutOfMemory: required(functionOption),
  planToCompare: required(functionOption),
  matmulsOfRun: required(functionOption),
  profileOperations: required(functionOption),
});

/**
 * Returns the planner of a run, for a flag that needs it.
 *
 * @throws ConfigurationError MTL_OPTION if the run has no planner
 */
export function planningFor(flag: string, planning: RunPlanning | undefined): RunPlanning {
  if (planning !== undefined) return planning;
  throw new ConfigurationError('MTL_OPTION', `${flag} asks a planner, and this run has none`, {
    expected: 'the option planning',
    remedy: 'pass `planning` of @mtl/planning, or leave the flag out',
  });
}
