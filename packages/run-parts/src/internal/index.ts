export type { OpenedAdapters } from '../adapters/model-adapters.js';
export {
  dataOfConversations,
  type OpenedConversations,
  openConversations,
} from '../conversations/open-conversations.js';
export { stopTokensOf } from '../conversations/turn-tokens.js';
export { defaultCorpusFiles } from '../corpus/default-corpus.js';
export {
  microBatchesOf,
  type OpenTrainingDataOptions,
  openTrainingData,
  type TrainingData,
} from '../data/training-data.js';
export { bertTokenizerSettings } from '../models/bert-recipe.js';
export { layersOfChunks } from '../models/chunk-layers.js';
export { activeText, descriptionOfRun } from '../models/description-of-run.js';
export { expertLosses, layersWithExperts } from '../models/gpt-recipe.js';
export {
  checkHuggingFaceTarget,
  checkSaveForHuggingFace,
  exportsOfRun,
} from '../models/hugging-face-targets.js';
export { blocksOfProgram, loadModelBlocks } from '../models/load-model-blocks.js';
export { type AssumedRouting, type ModelChunk, type ModelPart, modelPart } from '../models/model-part.js';
export type { HuggingFaceModel } from '../models/model-recipe.js';
export { dtypeOfPrecision, optimizerOfPart, trainingOptimizer } from '../models/part-of-run.js';
export { flopsShapeOf, recipeOf, upcyclingOf } from '../models/recipe-of.js';
export type { StageBatches } from '../models/stage-batches.js';
export { checkTokenizerFits, openHuggingFace, trainingModel } from '../models/training-model.js';
export { type NewTrainerOptions, newTrainer } from '../new-trainer.js';
export {
  type Job,
  type JoinedProcesses,
  type JoinProcessesOptions,
  joinProcesses,
  openDeviceOfRank,
} from '../ranks/join-processes.js';
export { jobOption, localOption, processesOption, worldOption } from '../ranks/option-checks.js';
export { defaultSampling, type ModelSample } from '../samples/sample-continuation.js';
export {
  chooseThreads,
  flopsPerMicroBatch,
  setThreadsOfRank,
  type ThreadChoice,
  threadsOfTraining,
} from '../threads/threads-of-run.js';
