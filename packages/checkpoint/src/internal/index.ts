export { jobOfCheckpoint } from '../checkpoints/save-owner.js';
export { prepareSaveDirectory } from '../saving/save-directory.js';
