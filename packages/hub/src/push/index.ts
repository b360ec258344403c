export { type ModelCardFacts, modelCard, type TrainingFacts } from './model-card.js';
export { type PreparedPush, type PreparePushOptions, preparePush } from './push-model.js';
export type { ModelFormat, PushedFile, PushedFolder } from './pushed-files.js';
