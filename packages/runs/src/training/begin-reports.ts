import type { PretrainingConfiguration, RecordedMatmuls, SavedConfiguration } from '@mtl/configuration';
import { architectureFlags, listTokenizerFlags } from '@mtl/configuration/saved';
import { hostInformation } from '@mtl/kernels';
import type { TransformerConfiguration } from '@mtl/models';
import type { Tokenizer } from '@mtl/tokenizers';
import { modelFlops } from '@mtl/trainer';
import { modelFlopsText } from '@mtl/trainer/internal';
import { contentsOfFlags, type FileContents, tokenizerFiles } from '../data-changes/contents-of-flags.js';
import {
  changedFiles,
  dataChanges,
  noteOfUnknownData,
  notesOfDataChanges,
  startOfCheckpoint,
} from '../data-changes/data-changes.js';
import { once } from '../once.js';
import { descriptionOfRun } from '../parts/models/description-of-run.js';
import { describeFlopsShape, findRecipe } from '../parts/models/find-recipe.js';
import { type ThreadChoice, threadsOfTraining } from '../parts/threads/threads-of-run.js';
import { fasterPrecision } from './faster-precision.js';
import { notesOfInstructionSet } from './instruction-set-change.js';
import type { StartOfRun } from './load-start.js';
import { chooseMatmuls } from './matmuls/choose-matmuls.js';
import type { OpenedData } from './open-data.js';
import type { OpenedRun } from './open-run.js';
import { flagsWithSchedule } from './resumed-configuration.js';
import { RunLog } from './run-log.js';
import { openTrainingReporters, silentReporters, type TrainingReporters } from './training-reporters.js';
import { noteOfWebAssembly } from './webassembly-kernels.js';

/** The reporters of a run on this rank. */
export interface BegunReports {
  /** The log that writes run.json in the run folder; undefined except on rank 0 of a run with a folder. */
  readonly log: RunLog | undefined;
  readonly reporters: TrainingReporters;
  /** The number of threads that this rank's kernels use. */
  readonly threads: ThreadChoice;
  /** The algorithms that were chosen for the run's matmuls; undefined if none were chosen. */
  readonly matmuls: RecordedMatmuls | undefined;
}

/**
 * Prepares the directory of --save and prints a description of the run. Chooses the number of threads and the
 * algorithms of matmuls. Opens run.json, metrics files and tracking services. All ranks must call this
 * function.
 *
 * @throws the errors of `SaveDirectory.prepare`, `threadsOfTraining`, `chooseMatmuls`,
 *   `RunLog.start` and `openTrainingReporters`
 */
export async function beginReports(
  run: OpenedRun,
  parts: {
    readonly start: StartOfRun;
    readonly model: TransformerConfiguration;
    readonly data: OpenedData;
  },
): Promise<BegunReports> {
  const { processes, saveDirectory, local, stream, onMessage } = run;
  const { start, model, data } = parts;
  const { configuration, progress } = start;
  const recipe = findRecipe(configuration);
  const numParameters = recipe.numParameters(model);
  const flopsShape = describeFlopsShape(configuration, model);
  const numAdapted = recipe.adapters.numParameters(configuration, model);
  // a lower bound for the bytes of a checkpoint: each weight takes 4 bytes in float32, and each trained
  // weight takes another 8 bytes for AdamW's two moments, or 4 bytes for Muon's momentum
  const numTrained = numAdapted ?? numParameters;
  const numStates = configuration.optimizer.muon === undefined ? 2 : 1;
  const numBytes = 4 * (numParameters + numStates * numTrained);
  const host = hostInformation();
  await saveDirectory.prepare({ numBytes });
  const iteration = progress?.iteration ?? 0;
  const numActive = recipe.numActiveParameters(model);
  const described = { iteration, numParameters, numActive, numAdapted, ...data };
  for (const line of descriptionOfRun(configuration, described)) onMessage(line);
  for (const note of [noteOfWebAssembly(host), fasterPrecision(configuration, host)]) {
    if (note !== undefined) onMessage(note);
  }
  const threads = await threadsOfTraining({
    configuration: run.configuration,
    flopsPerSample: modelFlops(flopsShape),
    localSize: local.size,
    resumed: start.resumed,
    onMessage,
  });
  const matmuls = await chooseMatmuls(configuration, {
    model,
    processes,
    planning: run.planning,
    resumed: start.resumed,
    onMessage,
    variables: process.env,
  });
  const resolved = resolvedFlags({ configuration, model, tokenizer: data.tokenizer });
  const flopsFormula = modelFlopsText(flopsShape);
  // the first rank reads the data files for checksums, while the other ranks wait
  const begun = await processes.together(async () => {
    if (!processes.isFirst) return { log: undefined, reporters: silentReporters(flopsFormula) };
    const contents = once(() => contentsOfFlags(resolved));
    for (const note of notesOfChanges(start, { data, resolved, contents })) onMessage(note);
    const log = RunLog.start({
      directory: configuration.checkpoint.save,
      configuration: {
        ...run.configuration,
        training: configuration.training,
        resolved,
      },
      contents,
      datasets: data.fingerprints,
      threads,
      matmuls,
      iteration,
      onMessage,
    });
    const reporting = { configuration, stream, flopsFormula, resume: progress, log };
    const reporters = await openTrainingReporters(reporting).catch((error: unknown) => {
      log?.fail(error, { iteration });
      throw error;
    });
    return { log, reporters: run.openComparison === undefined ? reporters : withComparison(reporters, run) };
  });
  return { ...begun, threads, matmuls };
}

/** Returns messages about changes of data and instruction set since the resumed checkpoint was saved. */
function notesOfChanges(
  { resumed }: Pick<StartOfRun, 'resumed'>,
  now: {
    readonly data: OpenedData;
    readonly resolved: Readonly<Record<string, unknown>>;
    readonly contents: () => FileContents;
  },
): readonly string[] {
  const saved = resumed?.state.configuration as Partial<SavedConfiguration> | undefined;
  // the checkpoint was not saved by a training run
  if (resumed === undefined || saved?.trainedOn === undefined) return [];
  const { start, why } = startOfCheckpoint(resumed);
  if (start === undefined) return [noteOfUnknownData(why, resumed.path)];
  const { data, resolved } = now;
  const files = { ...now.contents(), resolved };
  return [
    ...notesOfDataChanges({
      training: [...dataChanges(start, data.fingerprints()), ...changedFiles(tokenizerFiles, start, files)],
      evaluation: changedFiles(['validation-data'], start, files),
      path: resumed.path,
    }),
    ...notesOfInstructionSet(start, hostInformation()),
  ];
}

/** Returns the reporters, with a reporter that compares steps with the run's plan if the flags request it. */
function withComparison(
  reporters: TrainingReporters,
  { openComparison, processes: { groups } }: OpenedRun,
): TrainingReporters {
  const write = (text: string): void => {
    for (const reporter of reporters.all) reporter.message?.(text);
  };
  const comparison = openComparison!({ groups, write });
  return { ...reporters, all: [...reporters.all, comparison], comparison };
}

interface ResolvedFlagsOptions {
  readonly configuration: PretrainingConfiguration;
  readonly model: TransformerConfiguration;
  readonly tokenizer: Pick<Tokenizer, 'options'>;
}

/**
 * Returns all flags of a run with their effective values, including values that follow from other flags or
 * come from a checkpoint. Runs that train in the same way thus have equal flags, whatever command started
 * them.
 */
export function resolvedFlags(options: ResolvedFlagsOptions): Readonly<Record<string, unknown>> {
  const { configuration, model, tokenizer } = options;
  const { flags, kind, optimizer, training } = configuration;
  return {
    ...flagsWithSchedule(flags, optimizer),
    ...architectureFlags({ kind, model }),
    ...(tokenizer.options === undefined ? {} : listTokenizerFlags(tokenizer.options)),
    'seq-length': configuration.model.sequenceLength,
    'global-batch-size': training.globalBatchSize,
    'train-iters': training.trainIterations,
  };
}
