import type {
  ConversationSamples,
  ParsedFlags,
  PretrainingConfiguration,
  ResolvedFlags,
} from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import { functionOption, type OptionCheck, objectOption, required } from '@mtl/errors/options';
import type { MatmulCalls } from '@mtl/kernels/matmul-choices';
import type { TransformerConfiguration } from '@mtl/models';
import type { GroupsByRole } from '@mtl/optimizer';
import type { StepListener } from '@mtl/pipeline';
import type { TrainingReporter } from '@mtl/trainer';

type Variables = Readonly<Record<string, string | undefined>>;

/** A dry run that a program's flags request. */
export interface DryRunOfProgram {
  /** The flags of the run; flags for data may be missing. */
  readonly flags: ParsedFlags;
  /**
   * The number of processes in the planned run. Default: the number of joined processes, or the smallest
   * number for one replica of the model.
   */
  readonly numProcesses?: number | undefined;
  /** The environment variables, by which launchers identify processes. Only the first process prints. */
  readonly variables: Variables;
  readonly print: (text: string) => void;
}

/** A run that ended with an error. */
export interface FailedRun {
  readonly resolved: ResolvedFlags;
  readonly configuration: PretrainingConfiguration;
  /** The samples of the run's conversations, if it is trained on conversations. */
  readonly conversations?: ConversationSamples | undefined;
  /** The rank that failed. */
  readonly rank: number;
}

/** Compares a run's measured steps with its plan. */
export interface StepComparison extends TrainingReporter {
  /** Returns a text that compares all steady steps so far with the plan. */
  text(): string;
}

/**
 * Opens the comparison of a run's steps with its plan. `write` is called after the step times have become
 * steady.
 */
export type OpenComparison = (options: {
  readonly groups: GroupsByRole;
  readonly write: (text: string) => void;
}) => StepComparison;

/** The steps in which to measure the time of each operation. */
export interface OperationsToProfile {
  /** The first step, as the trainer counts steps. `last` is the last step. */
  readonly first: number;
  readonly last: number;
  /** Returns how many seconds in total this process has waited for other processes. */
  readonly waitedSeconds: () => number;
  readonly onMessage: (text: string) => void;
}

/**
 * The planner of a training run. `planning` in @mtl/planning implements this interface, and programs pass it
 * to the run. A run without a planner trains in the same way, but rejects flags that need a planner.
 */
export interface RunPlanning {
  /** Prints the resources that a run needs. Implements --dry-run. */
  printDryRun(options: DryRunOfProgram): Promise<void>;
  /** Returns an out-of-memory error with advice added. Returns any other error unchanged. */
  explainOutOfMemory(error: unknown, run: FailedRun): Promise<unknown>;
  /**
   * Plans the run for --compare-with-plan.
   *
   * @returns a function that opens the comparison of the run's steps with the plan
   * @throws ConfigurationError for a run that cannot be compared
   */
  planToCompare(configuration: PretrainingConfiguration, variables: Variables): Promise<OpenComparison>;
  /** Returns the matmuls that each kind of rank computes in a step, for --time-matmuls. */
  matmulsOfRun(
    configuration: PretrainingConfiguration,
    model: TransformerConfiguration,
  ): Promise<MatmulCalls>;
  /**
   * Returns the peak memory, in bytes and including activations, of the rank that needs the most memory.
   *
   * @throws KernelError MTL_OUT_OF_MEMORY if the peak is more than the WebAssembly kernels can count
   */
  peakBytesOfRun(configuration: PretrainingConfiguration, model: TransformerConfiguration): Promise<number>;
  /** Returns a listener that reports the time of each operation in the steps of --profile-steps. */
  profileOperations(options: OperationsToProfile): StepListener;
}

export const planningOption: OptionCheck<false> = objectOption('`planning` of @mtl/planning', {
  printDryRun: required(functionOption),
  explainOutOfMemory: required(functionOption),
  planToCompare: required(functionOption),
  matmulsOfRun: required(functionOption),
  peakBytesOfRun: required(functionOption),
  profileOperations: required(functionOption),
});

/**
 * Returns the run's planner. `flag` is the flag that needs it.
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
