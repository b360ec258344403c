export { downloadAdvice } from '@mtl/formats/internal';
export { endWithoutOutput } from '../end-without-output.js';
export type { OpenedAdapters } from '../parts/adapters/model-adapters.js';
export {
  dataOfConversations,
  type OpenedConversations,
  openConversations,
} from '../parts/conversations/open-conversations.js';
export { listStopTokens } from '../parts/conversations/turn-tokens.js';
export { defaultCorpusFiles } from '../parts/corpus/default-corpus.js';
export {
  type OpenTrainingDataOptions,
  openTrainingData,
  planMicroBatches,
  type TrainingData,
} from '../parts/data/training-data.js';
export { bertTokenizerSettings } from '../parts/models/bert-recipe.js';
export { dtypeOfPrecision, optimizerOfPart, trainingOptimizer } from '../parts/models/build-stages.js';
export { layersOfChunks } from '../parts/models/chunk-layers.js';
export { activeText, descriptionOfRun } from '../parts/models/description-of-run.js';
export { expertLosses, layersWithExperts } from '../parts/models/gpt-recipe.js';
export {
  checkHuggingFaceTarget,
  checkSaveForHuggingFace,
  exportsOfRun,
} from '../parts/models/hugging-face-targets.js';
export { blocksOfProgram, loadModelBlocks } from '../parts/models/load-model-blocks.js';
export {
  type AssumedRouting,
  type ModelChunk,
  modelPart,
  type RankModel,
} from '../parts/models/model-part.js';
export type { HuggingFaceModel } from '../parts/models/model-recipe.js';
export { describeFlopsShape, findRecipe, findUpcycling } from '../parts/models/recipe-of.js';
export type { StageBatches } from '../parts/models/stage-batches.js';
export { checkTokenizerFits, openHuggingFace, trainingModel } from '../parts/models/training-model.js';
export { type NewTrainerOptions, newTrainer } from '../parts/new-trainer.js';
export {
  type Job,
  type JoinedProcesses,
  type JoinProcessesOptions,
  joinProcesses,
  openDeviceOfRank,
} from '../parts/ranks/join-processes.js';
export { jobOption, localOption, processesOption, worldOption } from '../parts/ranks/option-checks.js';
export { defaultSampling, type ModelSample } from '../parts/samples/sample-continuation.js';
export {
  chooseThreads,
  flopsPerMicroBatch,
  setThreadsOfRank,
  type ThreadChoice,
  threadsOfTraining,
} from '../parts/threads/threads-of-run.js';
export { isSamePlace, refuseCheckpoints } from '../saved/checkpoints/checkpoint-places.js';
export { openSavedCheckpoint } from '../saved/checkpoints/open-saved-checkpoint.js';
export { savedWeights } from '../saved/checkpoints/saved-weights.js';
export { fetchFromHub } from '../saved/hub/fetch-from-hub.js';
export { withHubModels } from '../saved/hub/with-hub-models.js';
export { openGptWeights } from '../saved/inference/open-gpt-weights.js';
export { readLoadedFlags } from '../saved/read-loaded-flags.js';
export { exportedTokenizerNotice } from '../saved/tokenizers/exported-tokenizer-notice.js';
export {
  exportedTokenizerFiles,
  tokenizerOfHuggingFace,
} from '../saved/tokenizers/hugging-face-tokenizers.js';
export { waitedSeconds } from '../training/loop-extensions.js';
export { timeMatmulsOfRun } from '../training/matmuls/choose-matmuls.js';
export { MatmulChoiceFile } from '../training/matmuls/matmul-choice-file.js';
export { matmulPlatform } from '../training/matmuls/matmul-platform.js';
export { shellWord } from '../training/run-training-program.js';
export { Training } from '../training/training.js';
