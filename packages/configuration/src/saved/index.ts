export {
  architectureFlags,
  checkHuggingFaceArchitecture,
  checkSameArchitecture,
  differingFlags,
  flagsOfHuggingFace,
  type KindOfModel,
  withAskedPositions,
} from './flags-of-model.js';
export { flagsOfStart } from './flags-of-start.js';
export { decidesLearning, learningDifferences } from './learning-differences.js';
export {
  type CheckpointPlace,
  listSavedSizes,
  readAnySavedConfiguration,
  savedModelKeys,
  type TrainedOn,
} from './saved-configuration.js';
export {
  keepTokenizer,
  listTokenizerFlags,
  modelFileNames,
  saveTokenizer,
  tokenizerFiles,
} from './saved-tokenizer.js';
