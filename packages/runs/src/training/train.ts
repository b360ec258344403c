import { join } from 'node:path';
import { flagsOfOptions, type RunOptions } from '@mtl/configuration';
import { inWordsOfOptions, ofRun, runOptionChecks } from '@mtl/configuration/internal';
import { checkOptions, functionOption, type OptionChecks } from '@mtl/errors/options';
import { type ModelBlocks, registerModelBlocks } from '@mtl/models';
import type { ConsoleStream, TrainerExtension } from '@mtl/trainer';
import { refuseAfterStopSignal } from '@mtl/trainer/internal';
import { extensionsOption, streamOption } from '../option-checks.js';
import { blocksOfProgram } from '../parts/models/load-model-blocks.js';
import { configureJob, joinJob, withFlagsOfLoad } from './configure-job.js';
import { openTraining, type Pretraining } from './open-training.js';
import { planningOption, type RunPlanning } from './run-planning.js';

/** Options of a training run by topic, and its message callback. */
export type TrainOptions = RunOptions & {
  /** The block of each layer, instead of the block that `model` describes; the same on all ranks. */
  readonly blocks?: ModelBlocks | undefined;
  /** Called with notes, progress and console lines as gpt-train prints them. Default: none are printed. */
  readonly stream?: ConsoleStream | undefined;
  /** The planner: `planning` of @mtl/planning. Default: none, and options that need it are refused. */
  readonly planning?: RunPlanning | undefined;
  /** Extensions of the training loop. */
  readonly extensions?: readonly TrainerExtension[] | undefined;
};

const checks: OptionChecks<TrainOptions> = {
  ...runOptionChecks,
  blocks: functionOption,
  stream: streamOption,
  planning: planningOption,
  extensions: extensionsOption,
};

/** A stream that discards its input. */
const silence: ConsoleStream = { write: () => true };

/**
 * Builds a training run, whose steps its caller goes through:
 *
 * ```ts
 * await using training = await train({ preset: 'char-10m', training: { trainIterations: 100 } });
 * for await (const { iteration, loss } of training) console.log(iteration, loss);
 * ```
 *
 * Under a launcher (`mtl run --nproc-per-node 4 program.mts`, torchrun, srun, mpirun) every process of the
 * job calls it with the same options and trains its part. A run saves only if `checkpoint.save` names a
 * directory. `close` ends reports and leaves the job; leaving the block of `await using` calls it.
 *
 * While its steps run, SIGINT, SIGTERM or SIGHUP end the run in order, and `result.reason` is the signal. The
 * signal asks the whole process to end, so no further run starts there: a loop over runs ends with
 * MTL_STOP_SIGNAL, unless it checks the reason and ends itself. Programs that continue anyway call
 * `forgetStopSignal`. Between runs signals have their usual effect.
 *
 * @throws ConfigurationError for options that do not exist, have another type or cannot work, with the path
 *   of the option and in its words: `MTL_OPTION`, `MTL_FLAG_VALUE`, errors of `configure`; DataError,
 *   CheckpointError and CommunicationError for files and connections that cannot be opened; TrainingError
 *   MTL_STOP_SIGNAL after a signal has ended a run in this process
 */
export async function train(all: TrainOptions = {}): Promise<Pretraining> {
  checkOptions(all, { ...ofRun, checks });
  // before waiting for other processes
  refuseAfterStopSignal();
  const { stream = silence, extensions, blocks, planning, ...options } = all;
  const flags = flagsOfOptions(blocks === undefined ? options : withBlocks(options, blocks));
  const joined = await joinJob(flags, (text) => void stream.write(`${text}\n`));
  try {
    const configured = await configureJob(await withFlagsOfLoad(flags, joined), joined);
    const corpusDirectory = join('.cache', 'mtl');
    const { startedAt: _, ...processes } = joined;
    const told = { stream, extensions, planning, closesWorld: true };
    return await openTraining({ ...configured, ...processes, ...told, corpusDirectory });
  } catch (error) {
    // the other processes end with this error instead of waiting for this one
    joined.world?.abort(error as Error);
    throw inWordsOfOptions(error);
  }
}

function withBlocks(options: RunOptions, blocks: ModelBlocks): RunOptions {
  registerModelBlocks(blocksOfProgram, blocks);
  return { ...options, model: { ...options.model, modelBlocks: blocksOfProgram } };
}
