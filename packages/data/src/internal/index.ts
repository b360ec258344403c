export { preparedPrefix } from '../corpora/prepare-dataset.js';
export { refuseExistingDataset, refuseExistingFiles } from '../indexed/refuse-existing.js';
export { mostRoomForMasked } from '../masked/masked-token-batch.js';
export { maskingVocabulary } from '../masked/masking.js';
export { checkNoWeightAmongPrefixes } from '../samples/data-path.js';
export { shareOfSampler } from '../samples/micro-batch-sampler.js';
export { createTokenBatch, documentsOfSamples } from '../samples/sample-dataset.js';
