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
  /** Flags of the run. They need no data. */
  readonly flags: ParsedFlags;
  /** That the run would have. Default: those that are there, or as many as one copy of the model takes. */
  readonly numProcesses?: number | undefined;
  /** The environment: under a launcher only the first process does anything. */
  readonly variables: Variables;
  readonly print: (text: string) => void;
}

/** The run that an error ended. */
export interface FailedRun {
  readonly resolved: ResolvedFlags;
  readonly configuration: PretrainingConfiguration;
  /** Samples of its conversations, where it trains on any. */
  readonly conversations?: ConversationSamples | undefined;
  /** The rank on which it failed. */
  readonly rank: number;
}

/** Compares the steps of a run with its plan. */
export interface StepComparison extends TrainingReporter {
  /** Returns the comparison of all steady steps so far. */
  text(): string;
}

/** Opens the comparison of a run's steps with its plan; `write` gets it once the steps are steady. */
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
 * A planner, as a training run asks it. `planning` of @mtl/planning is one, and programs pass it in; a run
 * without any trains in the same way, and refuses the flags that ask a planner.
 */
export interface RunPlanning {
  /** Prints what a run would take, for --dry-run. */
  printDryRun(options: DryRunOfProgram): Promise<void>;
  /** Returns an error with advice where memory ran out; other errors come back as they are. */
  explainOutOfMemory(error: unknown, run: FailedRun): Promise<unknown>;
  /**
   * Plans the run for --compare-with-plan.
   *
   * @returns opens the comparison of its steps
   * @throws ConfigurationError for a run that cannot be compared
   */
  planToCompare(configuration: PretrainingConfiguration, variables: Variables): Promise<OpenComparison>;
  /** Returns the matmuls of a step of every kind of rank, for --time-matmuls. */
  matmulsOfRun(
    configuration: PretrainingConfiguration,
    model: TransformerConfiguration,
  ): Promise<MatmulCalls>;
  /** Opens the listener that tells where the time of the steps of --profile-steps went. */
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
 * Returns the planner of a run, which a flag asks.
 *
 * @throws ConfigurationError MTL_OPTION where the run was given none
 */
export function planningFor(flag: string, planning: RunPlanning | undefined): RunPlanning {
  if (planning !== undefined) return planning;
  throw new ConfigurationError('MTL_OPTION', `${flag} asks a planner, and this run has none`, {
    expected: 'the option planning',
    remedy: 'pass `planning` of @mtl/planning, or leave the flag out',
  });
}
