export { type OpenedConversations, openConversations } from './conversations/open-conversations.js';
export { stopTokensOf } from './conversations/turn-tokens.js';
export { defaultCorpusFiles } from './corpus/default-corpus.js';
export { type OpenTrainingDataOptions, openTrainingData, type TrainingData } from './data/training-data.js';
export { loadModelBlocks } from './models/load-model-blocks.js';
export { optimizerOfRun, type PartOfRun, partOfRun } from './models/part-of-run.js';
export {
  type Job,
  type JoinedProcesses,
  type JoinProcessesOptions,
  joinProcesses,
} from './ranks/join-processes.js';
export { TrainingProcesses, type TrainingProcessesOptions } from './ranks/training-processes.js';
export { defaultSampling } from './samples/sample-continuation.js';
