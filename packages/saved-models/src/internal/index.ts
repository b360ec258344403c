export { downloadAdvice } from '@mtl/formats/internal';
export { isSamePlace, refuseCheckpoints } from '../checkpoints/checkpoint-places.js';
export { loadTraining } from '../checkpoints/load-training.js';
export { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
export { savedWeights } from '../checkpoints/saved-weights.js';
export { openGptWeights } from '../inference/open-gpt-weights.js';
export { readLoadedFlags } from '../read-loaded-flags.js';
export { exportedTokenizerNotice } from '../tokenizers/exported-tokenizer-notice.js';
export { exportedTokenizerFiles, tokenizerOfHuggingFace } from '../tokenizers/hugging-face-tokenizers.js';
