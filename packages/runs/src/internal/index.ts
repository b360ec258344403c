export { downloadAdvice } from '@mtl/formats/internal';
export { endWithoutOutput } from '../end-without-output.js';
export { openConversations } from '../parts/conversations/open-conversations.js';
export { listStopTokens } from '../parts/conversations/turn-tokens.js';
export { defaultCorpusFiles } from '../parts/corpus/default-corpus.js';
export { openTrainingData, planMicroBatches } from '../parts/data/training-data.js';
export { bertTokenizerSettings } from '../parts/models/bert-recipe.js';
export { activeText } from '../parts/models/description-of-run.js';
export { checkHuggingFaceTarget, checkSaveForHuggingFace } from '../parts/models/hugging-face-targets.js';
export { loadModelBlocks } from '../parts/models/load-model-blocks.js';
export type { AssumedRouting } from '../parts/models/model-part.js';
export { describeFlopsShape, findRecipe } from '../parts/models/recipe-of.js';
export { checkTokenizerFits, openHuggingFace, trainingModel } from '../parts/models/training-model.js';
export { newTrainer } from '../parts/new-trainer.js';
export { type Job, joinProcesses, openDeviceOfRank } from '../parts/ranks/join-processes.js';
export { jobOption, localOption, worldOption } from '../parts/ranks/option-checks.js';
export { defaultSampling } from '../parts/samples/sample-continuation.js';
export {
  chooseThreads,
  flopsPerMicroBatch,
  setThreadsOfRank,
  type ThreadChoice,
} from '../parts/threads/threads-of-run.js';
export { fetchFromHub } from '../saved/hub/fetch-from-hub.js';
export { withHubModels } from '../saved/hub/with-hub-models.js';
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
