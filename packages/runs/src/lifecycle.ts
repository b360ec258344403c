// The entry point for further kinds of runs, such as fine-tuning in @mtl/bert-tasks. It exports the code for
// run directories, records, reports, and the start and end of runs.

export { closeAfterError } from './close-all.js';
export {
  dataChanges,
  noteOfUnknownData,
  notesOfDataChanges,
  readLastStart,
  startOfCheckpoint,
} from './data-changes/data-changes.js';
export { taskDataFingerprint } from './data-changes/fingerprints.js';
export { bertTokenizerSettings } from './parts/models/bert-recipe.js';
export { dtypeOfPrecision, optimizerOfPart } from './parts/models/build-stages.js';
export { checkHuggingFaceTarget, checkSaveForHuggingFace } from './parts/models/hugging-face-targets.js';
export { modelPart, type RankModel } from './parts/models/model-part.js';
export { checkTokenizerFits } from './parts/models/training-model.js';
export { type Job, openDeviceOfRank } from './parts/ranks/join-processes.js';
export { jobOption, localOption, worldOption } from './parts/ranks/option-checks.js';
export { setThreadsOfRank, type ThreadChoice } from './parts/threads/threads-of-run.js';
export { SaveDirectory } from './save-directory.js';
export { type FoundStart, findStart } from './saved/checkpoints/find-start.js';
export { openSavedCheckpoint } from './saved/checkpoints/open-saved-checkpoint.js';
export { savedWeights } from './saved/checkpoints/saved-weights.js';
export { fetchFromHub } from './saved/hub/fetch-from-hub.js';
export { exportedTokenizerNotice } from './saved/tokenizers/exported-tokenizer-notice.js';
export {
  exportedTokenizerFiles,
  tokenizerOfHuggingFace,
} from './saved/tokenizers/hugging-face-tokenizers.js';
export { RunLog } from './training/run-log.js';
export { signalOfRanks } from './training/signal-of-ranks.js';
export { openTracking, type TrackedConfiguration, trackingOfRun } from './training/tracking-of-run.js';
export { Training } from './training/training.js';
export {
  closeSinks,
  type MetricsFiles,
  openMetricsFiles,
  type RunReporters,
} from './training/training-reporters.js';
