export { optimizerOfRun, type PartOfRun, partOfRun } from './models/part-of-run.js';
export { TrainingProcesses, type TrainingProcessesOptions } from './ranks/training-processes.js';
