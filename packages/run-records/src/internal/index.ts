export { comparedFlags } from '../comparable-run.js';
export { compareExpertLoads } from '../compare-expert-loads.js';
export { readMetricsRecords } from '../metrics-records.js';
export { directoryOfRuns, findRunDirectory, runsDirectory } from '../read-run.js';
export { contentsOfRun } from '../remove-run.js';
export {
  type DatasetRecord,
  readRunRecord,
  type TaskDataRecord,
  trackedRun,
  writeRunRecord,
} from '../run-record.js';
