export { type OpenedConversations, openConversations } from './conversations/open-conversations.js';
export { stopTokensOf } from './conversations/stop-tokens-of.js';
export {
  type DefaultCorpusOptions,
  type PreparedCorpus,
  prepareDefaultCorpus,
} from './corpus/default-corpus.js';
export { defaultCorpusFiles } from './corpus/default-corpus-files.js';
export {
  type OpenTrainingDataOptions,
  openTrainingData,
  type TrainingData,
} from './data/open-training-data.js';
export { loadModelBlocks } from './models/load-model-blocks.js';
export { optimizerOfRun, type PartOfRun, partOfRun } from './models/part-of-run.js';
export { type JoinedProcesses, type JoinProcessesOptions, joinProcesses } from './ranks/join-processes.js';
export type { Job } from './ranks/read-job.js';
export { TrainingProcesses, type TrainingProcessesOptions } from './ranks/training-processes.js';
export { defaultSampling } from './samples/default-sampling.js';
export { type SampleTextOptions, sampleText } from './samples/sample-text.js';
