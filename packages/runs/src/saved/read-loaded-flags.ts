import { type Checkpoint, listCheckpoints } from '@mtl/checkpoint';
import { type Flags, type LoadedFlags, type ResolvedFlags, readSavedConfiguration } from '@mtl/configuration';
import {
  bundledCorpus,
  checkpointFlags,
  isFlagName,
  loggingFlags,
  parallelFlagNames,
  tokenizerFlagNames,
} from '@mtl/configuration/flags';
import { architectureFlags, flagsOfHuggingFace, listTokenizerFlags } from '@mtl/configuration/saved';
import { MtlError } from '@mtl/errors';
import { readHuggingFaceBert, readHuggingFaceGpt } from '@mtl/formats';
import type { BatchPosition } from '@mtl/optimizer';
import { readTrainingState } from '@mtl/trainer';
import { withAdapters } from './adapters/flags-of-adapters.js';
import { checkSavedSizes } from './checkpoints/check-saved.js';
import { isSamePlace } from './checkpoints/checkpoint-places.js';
import { openSavedCheckpoint, type SavedCheckpoint } from './checkpoints/open-saved-checkpoint.js';
import { tokenizerOfHuggingFace } from './tokenizers/hugging-face-tokenizers.js';

/**
 * Flags that apply only to one start of a run: for machines, inputs, outputs, and the end of the run. A
 * resumed run does not inherit them from its checkpoint.
 */
const flagsOfOneRun = new Set<string>([
  ...parallelFlagNames,
  ...Object.keys(checkpointFlags).filter(
    (name) => !['save-interval', 'async-save', 'keep-last'].includes(name),
  ),
  ...['exit-interval', 'exit-duration-in-mins', 'dry-run', 'num-processes', 'rerun-mode'],
  // the template is part of the tokenizer that the checkpoint stores
  'chat-template',
  ...Object.keys(loggingFlags).filter((name) => name !== 'log-interval'),
]);

/**
 * Reads the flags that a run gets from the checkpoint of --load or the directory of --load-hf. A resumed
 * checkpoint gives all flags except flags for one start only (devices, ranks, output paths). A run that
 * continues in its own folder also keeps the flags for its metrics files. With --finetune, a converted
 * checkpoint or --load-hf, the run gets only the flags of the model and its tokenizer. If adapters are
 * loaded, their flags are added (see `withAdapters`).
 *
 * Returns undefined if nothing is loaded, or if --load and --save name the same empty directory.
 *
 * @throws CheckpointError MTL_CHECKPOINT_*, MTL_HUGGING_FACE_*, MTL_LORA_DIRECTORY; ConfigurationError
 *   MTL_FLAG_REQUIRED and DataError MTL_DATA_TOKENIZER, the errors of `tokenizerOfHuggingFace`
 */
export async function readLoadedFlags(flags: ResolvedFlags): Promise<LoadedFlags | undefined> {
  return await withAdapters(await readFlagsOfModel(flags), flags);
}

async function readFlagsOfModel(flags: ResolvedFlags): Promise<LoadedFlags | undefined> {
  const { load, 'load-hf': loadHuggingFace } = flags.values;
  if (load !== undefined && loadHuggingFace !== undefined) return undefined; // refused with the other flags
  if (loadHuggingFace !== undefined) return await fromHuggingFace(loadHuggingFace, flags);
  if (load === undefined) return undefined;
  const checkpoint = await savedIn(load, flags.values);
  return checkpoint === undefined ? undefined : fromCheckpoint(checkpoint, flags);
}

/**
 * Returns the checkpoint that will be loaded. Only the manifest is read here. The remaining files are checked
 * when the checkpoint is loaded.
 */
async function savedIn(load: string, values: Flags): Promise<SavedCheckpoint | undefined> {
  const { save, 'ckpt-step': step } = values;
  const listing = await listCheckpoints(load);
  const found: Checkpoint | undefined = listing?.checkpoints.find(
    ({ iteration }) => step === undefined || iteration === step,
  );
  if (found !== undefined) {
    checkSavedSizes(found);
    const { configuration } = readTrainingState(found.state, found.path);
    return { checkpoint: found, configuration, place: { directory: load, path: found.path } };
  }
  try {
    return await openSavedCheckpoint({ load, checkpointStep: step, onNotice: () => {} });
  } catch (error) {
    const isEmpty = MtlError.isInstance(error) && error.code === 'MTL_CHECKPOINT_NONE';
    // scripts for restarted jobs pass the same directory to --load and --save, which is empty at the first
    // start
    if (isEmpty && step === undefined && isSamePlace(load, save)) return undefined;
    throw error;
  }
}

function fromCheckpoint(
  { checkpoint, configuration, place }: SavedCheckpoint,
  { model: kind, values, given }: ResolvedFlags,
): LoadedFlags {
  const { model, tokenizer, flags, resolved, trainedOn } = readSavedConfiguration(kind, configuration, place);
  // a checkpoint that lacks these fields was made by a conversion, and not by training
  const training = trainedOn && flags && resolved && { flags, resolved };
  const goesOn = training !== undefined && values.finetune !== true;
  const isSameRun =
    values['ckpt-step'] === undefined && isSamePlace(place.directory, values.save ?? place.directory);
  const data = training?.resolved.data;
  const isOfConversations = data?.conversations !== undefined;
  const bundled = data?.dataPath.length === 0 && !isOfConversations && data.mockData !== true;
  // a run on the bundled corpus uses the corpus's tokenizer again, unless a flag names another tokenizer
  const isOfCorpus =
    goesOn && bundled && training.flags['tokenizer-type'] === undefined && !given.has('data-path');
  const withTokenizer = tokenizer !== undefined && !isOfCorpus;
  return {
    source: `checkpoint ${place.path}`,
    values: {
      ...(goesOn ? flagsOfTraining(training.flags, { isSameRun }) : {}),
      ...(goesOn ? { 'global-batch-size': training.resolved.training.globalBatchSize } : {}),
      ...(goesOn && bundled ? { 'data-path': [bundledCorpus] } : {}),
      ...architectureFlags({ kind, model }),
      'seq-length': training?.resolved.model.sequenceLength ?? model.maxPositionEmbeddings,
      ...(withTokenizer ? listTokenizerFlags(tokenizer) : {}),
    },
    // no flag is fixed, because loading compares the models
    fixed: [],
    ...(withTokenizer ? { tokenizer } : {}),
    vocabularySize: model.vocabularySize,
    ...(values.finetune === true ? {} : { start: readProgress(checkpoint) }),
  };
}

/** Returns the progress of the training run that saved the checkpoint. */
function readProgress({ state, path }: SavedCheckpoint['checkpoint']): BatchPosition {
  const { iteration, consumedSamples } = readTrainingState(state, path).progress;
  return { iteration, consumedSamples };
}

/**
 * The flags that name files for metrics. A run that continues in its own folder keeps writing to these files.
 */
const placesOfCurves: readonly string[] = ['tensorboard-dir', 'metrics-jsonl'];

function flagsOfTraining(flags: Flags, { isSameRun }: { readonly isSameRun: boolean }): Flags {
  const ofTokenizer: readonly string[] = tokenizerFlagNames;
  const kept = Object.entries(flags).filter(
    ([name]) =>
      isFlagName(name) &&
      (!flagsOfOneRun.has(name) || (isSameRun && placesOfCurves.includes(name))) &&
      !ofTokenizer.includes(name),
  );
  return Object.fromEntries(kept) as Flags;
}

async function fromHuggingFace(
  directory: string,
  { model: kind, given }: ResolvedFlags,
): Promise<LoadedFlags> {
  const found = await readers[kind]({ directory });
  const hasOwnTokenizer = tokenizerFlagNames.some((name) => given.has(name));
  const tokenizer = hasOwnTokenizer ? undefined : tokenizerOfHuggingFace(found.tokenizerFiles);
  return flagsOfHuggingFace({ directory, kind, model: found.configuration, tokenizer });
}

const readers = { gpt: readHuggingFaceGpt, bert: readHuggingFaceBert } as const;
