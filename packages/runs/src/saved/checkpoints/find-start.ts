import { existsSync } from 'node:fs';
import {
  Checkpoint,
  findCheckpoint,
  type LogicalTensor,
  listCheckpoints,
  loadCheckpoint,
  type TensorsToLoad,
} from '@mtl/checkpoint';
import { jobOfCheckpoint } from '@mtl/checkpoint/internal';
import type { CheckpointConfiguration, ModelKind } from '@mtl/configuration';
import { CheckpointError, MtlError } from '@mtl/errors';
import { isAdapter } from '@mtl/formats';
import { downloadAdvice } from '@mtl/formats/internal';
import type { TransformerConfiguration } from '@mtl/models';
import type { LossScaler, ModelOptimizer } from '@mtl/optimizer';
import {
  isOptimizerTensor,
  optimizerTensors,
  readParameterName,
  readTrainingState,
  type TrainingProgress,
  weightTensors,
} from '@mtl/trainer';
import type { OpenedAdapters } from '../../parts/adapters/model-adapters.js';
import { findUpcycling } from '../../parts/models/find-recipe.js';
import type { HuggingFaceModel } from '../../parts/models/model-recipe.js';
import type { TrainingProcesses } from '../../parts/ranks/training-processes.js';
import { checkSavedAdapters } from '../adapters/check-saved-adapters.js';
import { checkSameModel, checkSavedOptimizer } from './check-saved.js';
import { isSamePlace } from './checkpoint-places.js';

interface FindStartOptions {
  readonly checkpoint: Omit<CheckpointConfiguration, 'asyncSave' | 'schedule'>;
  /** The opened directory of --load-hf. */
  readonly huggingFace: HuggingFaceModel<TransformerConfiguration> | undefined;
  /** The adapters with which the run begins. Default: adapters have initial values. */
  readonly adapters?: OpenedAdapters | undefined;
  /**
   * The run's model. If a checkpoint contains a different model, the error names the flags that differ.
   * Default: models are not compared.
   */
  readonly model?: { readonly kind: ModelKind; readonly model: TransformerConfiguration };
  /** The names of all parameters of the model, including parameters on other stages. */
  readonly parameterNames: readonly string[];
  readonly optimizer: ModelOptimizer;
  readonly lossScaler: LossScaler;
  readonly processes: TrainingProcesses;
  /**
   * The directory to which this run may have saved before its launcher restarted it. It is searched before
   * --load.
   */
  readonly restartFrom?: RestartFrom | undefined;
  /** The message to print if the run saved no checkpoint before it was restarted. */
  readonly nothingSaved?: string | undefined;
  readonly onMessage: (text: string) => void;
}

/** The start of a training run. It is checked, but not applied until `load` is called. */
export interface FoundStart {
  /** The checkpoint from which weights are loaded; absent if there is none. */
  readonly checkpoint?: Checkpoint;
  /**
   * True if training continues from the checkpoint. False if a new run begins with the checkpoint's weights.
   */
  readonly isResumed: boolean;
  /** True if the optimizer's state is also loaded from the checkpoint. */
  readonly withOptimizer: boolean;
  /**
   * Loads the weights and states into the optimizer, which contains initial weights. Every process of the run
   * must call this method, and loads its own shards.
   *
   * @returns undefined if training starts at iteration 0, with initial or loaded weights
   */
  load(): Promise<TrainingProgress | undefined>;
}

/** Returns a start at iteration 0 without a checkpoint. */
const atFirstStep = (load: () => Promise<void> = async () => {}): FoundStart => ({
  isResumed: false,
  withOptimizer: false,
  load: async () => {
    await load();
    return undefined;
  },
});

/** The directory to which a restarted run may have saved checkpoints before. */
interface RestartFrom {
  readonly directory: string;
  /** The job whose checkpoints are accepted, or `any`. If the id is undefined, no checkpoint is accepted. */
  readonly job: { readonly id: string | undefined } | 'any';
}

/** The flags that select a checkpoint in a directory, and the parts of the checkpoint to load. */
type ResumeSettings = Pick<
  CheckpointConfiguration,
  'checkpointStep' | 'finetune' | 'loadOptimizer' | 'upcycle'
>;

/**
 * Finds the start of a run: the checkpoint that the run itself saved before a restart, or the checkpoint or
 * model in --load or --load-hf. Every process of the run must call this function.
 *
 * @throws CheckpointError for a checkpoint that does not exist, or whose model or optimizer differs from the
 * run's
 */
export async function findStart(options: FindStartOptions): Promise<FoundStart> {
  const { checkpoint: configuration, huggingFace, restartFrom, onMessage } = options;
  if (restartFrom !== undefined) {
    const { directory } = restartFrom;
    const settings = { finetune: false, loadOptimizer: true };
    const found = await openAgreed(options, { directory, settings, restartFrom });
    if (found !== undefined && (await isOwn(options, { ...found, restartFrom })))
      return await fromCheckpoint(options, found, settings);
    onMessage(
      options.nothingSaved ?? `restarted before this run had saved into ${directory}: training begins again`,
    );
  }
  if (huggingFace !== undefined) return atFirstStep(() => loadHuggingFace(options, huggingFace));
  const { load, save, checkpointStep } = configuration;
  if (load === undefined) return atFirstStep();
  const found = await openAgreed(options, { directory: load, step: checkpointStep, settings: configuration });
  if (found !== undefined) return await fromCheckpoint(options, found, configuration);
  // scripts for restarted jobs pass the same directory to --load and --save, which is empty at the first
  // start
  if (isSamePlace(load, save) && checkpointStep === undefined) {
    onMessage(`--load ${load}: there is no checkpoint yet; training starts at iteration 0`);
    return atFirstStep();
  }
  throw new CheckpointError('MTL_CHECKPOINT_NONE', `--load ${load}: there is no checkpoint`, {
    expected: 'a directory that --save wrote',
    ...(existsSync(load) ? {} : { remedy: downloadAdvice(load) }),
    exitCode: 2,
  });
}

/** Loads weights from an opened Hugging Face directory, and adapters from the directory of --load-lora. */
async function loadHuggingFace(
  options: FindStartOptions,
  huggingFace: HuggingFaceModel<TransformerConfiguration>,
): Promise<void> {
  const { checkpoint, optimizer, onMessage } = options;
  const weights = heldTensors(optimizer).filter(({ name }) => !isAdapter(name));
  await huggingFace.load(
    findUpcycling({ kind: chooseKind(options), checkpoint })?.tensors(weights) ?? weights,
  );
  await loadAdapters(options);
  optimizer.refreshModel();
  onMessage(beginning(huggingFace.directory, checkpoint));
}

/** Returns the message for a run that begins with the weights of a different run. */
const beginning = (path: string, { upcycle = false }: ResumeSettings): string =>
  `loaded the weights of ${path}${upcycle ? ', of whose feed-forward layers the experts are copies' : ''}; training starts at iteration 0`;

/** Returns the weights that have at least one element on this rank. */
const heldTensors = (optimizer: ModelOptimizer): readonly LogicalTensor[] =>
  weightTensors(optimizer).filter(({ slices }) => slices.every(({ start, end }) => start < end));

/** Loads the adapters from an opened directory. */
async function loadAdapters({ adapters, optimizer, onMessage }: FindStartOptions): Promise<void> {
  if (adapters === undefined) return;
  await adapters.load(heldTensors(optimizer).filter(({ name }) => isAdapter(name)));
  onMessage(`loaded the adapters of ${adapters.directory}`);
}

/**
 * Returns true if this run saved the checkpoint before its restart. Rank 0 compares the job id in the
 * checkpoint for all ranks.
 */
async function isOwn(
  { processes }: FindStartOptions,
  { checkpoint, restartFrom: { job } }: { checkpoint: Checkpoint; restartFrom: RestartFrom },
): Promise<boolean> {
  if (job === 'any') return true;
  const savedBy = processes.isFirst ? await jobOfCheckpoint(checkpoint.path) : undefined;
  return processes.agree(savedBy !== undefined && savedBy === job.id);
}

/** A checkpoint in which all ranks agree. */
interface AgreedCheckpoint {
  readonly checkpoint: Checkpoint;
  /** True if this rank has already loaded its tensors while it checked the checkpoint. */
  readonly isLoaded: boolean;
}

/**
 * Returns, on all ranks, the checkpoint that rank 0 finds. Rank 0 checks all bytes of the checkpoint. If the
 * run may start from this checkpoint, rank 0 loads its own tensors at the same time. All other ranks check
 * only the bytes that they read.
 */
async function openAgreed(
  options: FindStartOptions,
  place: {
    readonly directory: string;
    readonly step?: number | undefined;
    readonly settings: ResumeSettings;
    readonly restartFrom?: RestartFrom;
  },
): Promise<AgreedCheckpoint | undefined> {
  const { processes, onMessage } = options;
  const { directory, step, settings, restartFrom } = place;
  const own = await processes.together(async () => {
    if (!processes.isFirst) return undefined;
    const mayLoad = await holdsOnlyOwn(directory, restartFrom);
    const found = await findCheckpoint({
      directory,
      ...(step === undefined ? {} : { step }),
      onNotice: onMessage,
      load: async (candidate) =>
        mayLoad && fits(options, candidate, settings)
          ? tensorsToLoad(options, candidate, settings)
          : undefined,
    });
    return found.kind === 'found' ? found : undefined;
  });
  const path = processes.agree(own?.checkpoint.path);
  if (path === undefined) return undefined;
  return own ?? { checkpoint: await Checkpoint.open(path), isLoaded: false };
}

/**
 * Returns true if every checkpoint in the directory was saved by the restarted run. If other runs have saved
 * checkpoints there, the search may find a checkpoint from which this run does not start, and its values must
 * not replace the initial weights.
 */
async function holdsOnlyOwn(directory: string, restartFrom: RestartFrom | undefined): Promise<boolean> {
  if (restartFrom === undefined || restartFrom.job === 'any') return true;
  const { id } = restartFrom.job;
  const { checkpoints = [] } = (await listCheckpoints(directory)) ?? {};
  const jobs = await Promise.all(checkpoints.map(({ path }) => jobOfCheckpoint(path)));
  return id !== undefined && jobs.every((job) => job === id);
}

/**
 * Returns true if a run can start from the checkpoint. Errors of the checks are not thrown here, but later,
 * once the checkpoint is chosen.
 */
function fits(options: FindStartOptions, checkpoint: Checkpoint, settings: ResumeSettings): boolean {
  try {
    checkModel(options, checkpoint, settings);
    if (loadsOptimizer(settings)) checkSavedOptimizer(checkpoint, options.optimizer);
    checkAdapters(options, checkpoint, settings);
    readTrainingState(checkpoint.state, checkpoint.path);
    return true;
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    return false;
  }
}

const loadsOptimizer = ({ loadOptimizer, finetune }: ResumeSettings): boolean => loadOptimizer && !finetune;

/** Checks a checkpoint, and returns the start that loads it. */
async function fromCheckpoint(
  options: FindStartOptions,
  agreed: AgreedCheckpoint,
  settings: ResumeSettings,
): Promise<FoundStart> {
  const { optimizer, processes } = options;
  const { checkpoint } = agreed;
  checkModel(options, checkpoint, settings);
  const withOptimizer = loadsOptimizer(settings);
  if (withOptimizer) await processes.together(async () => checkSavedOptimizer(checkpoint, optimizer));
  return {
    checkpoint,
    isResumed: !settings.finetune,
    withOptimizer,
    load: () => loadFrom(options, agreed, settings),
  };
}

/** Rejects a checkpoint whose model differs from the run's model. */
function checkModel(options: FindStartOptions, checkpoint: Checkpoint, settings: ResumeSettings): void {
  const { model } = options;
  const upcycling = findUpcycling({ kind: chooseKind(options), checkpoint: settings });
  if (upcycling !== undefined) checkDense(checkpoint);
  if (model === undefined) return;
  checkSameModel(checkpoint, { ...model, model: upcycling?.makeDense(model.model) ?? model.model });
}

/**
 * Returns the parameter names that a checkpoint must contain for the run to start from it. For upcycling,
 * these are the names in the dense model.
 */
function namesInCheckpoint(options: FindStartOptions, settings: ResumeSettings): readonly string[] {
  const upcycling = findUpcycling({ kind: chooseKind(options), checkpoint: settings });
  return upcycling?.denseNames(options.parameterNames) ?? options.parameterNames;
}

function checkAdapters(options: FindStartOptions, checkpoint: Checkpoint, settings: ResumeSettings): void {
  const parameterNames = namesInCheckpoint(options, settings);
  checkSavedAdapters(checkpoint, { parameterNames, finetune: settings.finetune });
}

/** Returns the tensors that this rank loads from a checkpoint. */
function tensorsToLoad(
  options: FindStartOptions,
  checkpoint: Checkpoint,
  settings: ResumeSettings,
): TensorsToLoad {
  const { optimizer } = options;
  const { finetune } = settings;
  const withOptimizer = loadsOptimizer(settings);
  const held = weightTensors(optimizer);
  const upcycling = findUpcycling({ kind: chooseKind(options), checkpoint: settings });
  const weights = upcycling?.tensors(held) ?? held;
  const own = new Set(weights.map(({ name }) => name));
  const elsewhere = new Set(namesInCheckpoint(options, settings).filter((name) => !own.has(name)));
  return {
    tensors: [
      // a new run may add adapters to a model; adapters that the checkpoint does not contain are not loaded
      ...weights.filter(({ name }) => !finetune || !isAdapter(name) || checkpoint.tensors.has(name)),
      ...(withOptimizer ? optimizerTensors(optimizer) : []),
    ],
    ignore: (name) => (!withOptimizer && isOptimizerTensor(name)) || elsewhere.has(readParameterName(name)),
  };
}

async function loadFrom(
  options: FindStartOptions,
  { checkpoint, isLoaded }: AgreedCheckpoint,
  settings: ResumeSettings,
): Promise<TrainingProgress | undefined> {
  const { optimizer, lossScaler, processes, onMessage } = options;
  const { finetune } = settings;
  await processes.together(async () => checkAdapters(options, checkpoint, settings));
  await processes.together(async () => {
    if (!isLoaded) await loadCheckpoint({ checkpoint, ...tensorsToLoad(options, checkpoint, settings) });
  });
  if (finetune) await loadAdapters(options);
  optimizer.refreshModel();
  if (finetune) {
    onMessage(beginning(checkpoint.path, settings));
    return undefined;
  }
  const state = readTrainingState(checkpoint.state, checkpoint.path);
  if (loadsOptimizer(settings)) {
    optimizer.numSteps = state.optimizerSteps;
    lossScaler.loadState(state.lossScaler);
  }
  onMessage(`resuming from ${checkpoint.path}, iteration ${state.progress.iteration}`);
  return state.progress;
}

/** Rejects a checkpoint of a mixture of experts, because only a dense model can be upcycled. */
function checkDense({ path, tensors }: Checkpoint): void {
  if (![...tensors.keys()].some((name) => name.includes('.mlp.experts.'))) return;
  throw new CheckpointError('MTL_CHECKPOINT_MODEL', `${path} holds a mixture of experts already`, {
    expected: 'a dense model',
    remedy: 'leave --moe-use-upcycling out',
    exitCode: 2,
  });
}

/** Returns the model's kind. Without a model, returns GPT, because only a GPT can have experts. */
const chooseKind = ({ model }: Pick<FindStartOptions, 'model'>): ModelKind => model?.kind ?? 'gpt';
