export { isSamePlace } from '../checkpoints/is-same-place.js';
export { loadTraining } from '../checkpoints/load-training.js';
export { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
export { refuseCheckpoints } from '../checkpoints/refuse-checkpoints.js';
export { savedWeights } from '../checkpoints/saved-weights.js';
export { exportedTokenizerFiles } from '../tokenizers/exported-tokenizer-files.js';
export { tokenizerOfHuggingFace } from '../tokenizers/tokenizer-of-hugging-face.js';
