export { corpusFileNames } from '../corpora/corpus-files.js';
export { fileProblem, readRegularFile } from '../files/regular-files.js';
export { writeFileAtomically } from '../files/write-files.js';
export { mostRoomForMasked } from '../masked/masked-token-batch.js';
export { maskingVocabulary } from '../masked/masking.js';
export { checkNoWeightAmongPrefixes } from '../samples/data-path.js';
export { splitNames } from '../samples/dataset-part.js';
export { createSampleBatch, documentsOfSamples, type SampleBatch } from '../samples/sample-dataset.js';
export { tokenizerTypes } from '../tokenizers/tokenizer.js';
