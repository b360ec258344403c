export { endWithoutOutput } from '../end-without-output.js';
export { directoryOfRuns, runDirectoryOf, runsDirectory } from '../records/read-run.js';
export { contentsOfRun } from '../records/remove-run.js';
export { shellWord } from '../training/run-training-program.js';
export { Training } from '../training/training.js';
