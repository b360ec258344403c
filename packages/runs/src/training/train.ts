import { join } from 'node:path';
import { flagsOfOptions, type RunOptions } from '@mtl/configuration';
import { inWordsOfOptions, ofRun, runOptionChecks } from '@mtl/configuration/internal';
import { checkOptions, functionOption, type OptionChecks } from '@mtl/errors/options';
import { type ModelBlocks, registerModelBlocks } from '@mtl/models';
import type { ConsoleStream, TrainerExtension } from '@mtl/trainer';
import { refuseAfterStopSignal } from '@mtl/trainer/stop-signals';
import { extensionsOption, streamOption } from '../option-checks.js';
import { blocksOfProgram } from '../parts/models/load-model-blocks.js';
import { configureJob, joinJob, withFlagsOfLoad } from './configure-job.js';
import { openTraining, type Pretraining } from './open-training.js';
import { planningOption, type RunPlanning } from './run-planning.js';

/** The options of a training run: the flags, grouped by topic, and options that are not flags. */
export type TrainOptions = RunOptions & {
  /**
   * Returns the block of the given layer. It replaces the block that `model` describes, and must be the same
   * on all ranks.
   */
  readonly blocks?: ModelBlocks | undefined;
  /** The stream for notes, progress and console lines, in the format of gpt-train. Default: none. */
  readonly stream?: ConsoleStream | undefined;
  /**
   * The planner, which is `planning` in @mtl/planning. Default: none, and options that need a planner are
   * refused.
   */
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
 * Builds a training run. The caller iterates over its steps:
 *
 * ```ts
 * await using training = await train({ preset: 'char-10m', training: { trainIterations: 100 } });
 * for await (const { iteration, loss } of training) console.log(iteration, loss);
 * ```
 *
 * Under a launcher (`mtl run --nproc-per-node 4 program.mts`, torchrun, srun, mpirun), every process of the
 * job must call `train` with the same options, and trains its part. A run saves only if `checkpoint.save`
 * names a directory. `close` ends reports and leaves the job. It is called automatically at the end of the
 * block of `await using`.
 *
 * While the run trains, SIGINT, SIGTERM or SIGHUP ends it after the current step, and `result.reason` is the
 * signal. The signal concerns the whole process, so no further run starts in it. A loop over runs should end
 * when the reason is a signal, because `train` then throws MTL_STOP_SIGNAL. Programs that continue anyway
 * must call `forgetStopSignal`. Between runs, signals have their usual effect.
 *
 * @throws ConfigurationError for options that do not exist, have a wrong type or cannot work together; its
 *   message names the path of the option: `MTL_OPTION`, `MTL_FLAG_VALUE`, the errors of `configure`;
 *   DataError,
 *   CheckpointError and CommunicationError for files and connections that cannot be opened; TrainingError
 *   MTL_STOP_SIGNAL after a signal has ended a run in this process
 */
export async function train(all: TrainOptions = {}): Promise<Pretraining> {
  checkOptions(all, { ...ofRun, checks });
  // a stop signal is checked here, because otherwise this process would first wait for other processes
  refuseAfterStopSignal();
  const { stream = silence, extensions, blocks, planning, ...options } = all;
  const flags = flagsOfOptions(blocks === undefined ? options : withBlocks(options, blocks));
  const say = (text: string): void => void stream.write(`${text}\n`);
  const joined = await joinJob(flags, say);
  try {
    const configured = await configureJob(await withFlagsOfLoad(flags, joined, say), joined);
    const corpusDirectory = join('.cache', 'mtl');
    const { startedAt: _, ...processes } = joined;
    const told = { stream, extensions, planning, closesWorld: true };
    return await openTraining({ ...configured, ...processes, ...told, corpusDirectory });
  } catch (error) {
    // ends the other processes with this error; otherwise they would wait for this process
    joined.world?.abort(error as Error);
    throw inWordsOfOptions(error);
  }
}

function withBlocks(options: RunOptions, blocks: ModelBlocks): RunOptions {
  registerModelBlocks(blocksOfProgram, blocks);
  return { ...options, model: { ...options.model, modelBlocks: blocksOfProgram } };
}
